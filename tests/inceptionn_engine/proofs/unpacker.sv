// Proves for inceptionn_unpacker: it never blocks forever. It outputs one group per eight values of
// a packet. The groups contain the bytes of its bursts in order and without gaps.
//
// The proof tracks one byte, of any burst at any time, on its way.
module unpacker (
    input logic         clk,
    input logic         rst,
    input logic         s_valid,
    input logic [255:0] s_data,
    input logic         s_whole,
    input logic         s_last,
    input logic [31:0]  s_keep,
    input logic         s_cut,
    input logic [13:0]  s_values,
    input logic         m_ready,
    input logic         watch,
    input logic [4:0]   index
);
  logic         s_ready, m_valid, m_last, m_error;
  logic [15:0]  m_tags;
  logic [255:0] m_payload;
  logic [31:0]  m_keep;
  inceptionn_unpacker dut (.*);
  // Registers of dut, connected by prove.sh.
  wire [767:0] dut_bursts;
  wire [1:0]   dut_count;
  wire [4:0]   dut_place;
  wire [13:0]  dut_left;
  wire         dut_whole, dut_ended;

  wire take = s_valid && s_ready && !rst;
  wire give = m_valid && m_ready && !rst;

  // The input: a header, then the encoded part of at least one value.
  logic started = 1'b0;
  logic first = 1'b1;    // the next beat starts a packet
  logic coded = 1'b0;    // the header has ended
  always_ff @(posedge clk) begin
    started <= 1'b1;
    if (take) begin
      first <= s_last;
      coded <= !s_whole && !s_last;
    end
  end
  always_comb begin
    assume (rst == !started);
    assume (!first || s_whole);
    assume (!coded || !s_whole);
    assume (s_values != 14'd0);
    assume (!s_cut || (s_whole && s_last));
  end

  logic [6:0]  inside = '0;    // bytes accepted and not yet output
  logic        whole = 1'b1;   // they belong to a header
  logic        closed = 1'b0;  // the last of them end a packet
  logic [13:0] left = '0;      // values not yet output
  logic        watching = 1'b0;
  logic [6:0]  ahead = '0;     // bytes before the tracked one
  logic [7:0]  watched = '0;

  logic [6:0] bytes;  // of the output
  always_comb begin
    bytes = 7'd2;
    for (int i = 0; i < 8; i = i + 1)
      case (m_tags[2*i+:2])
        2'd0: bytes = bytes + 7'd0;
        2'd1: bytes = bytes + 7'd1;
        2'd2: bytes = bytes + 7'd2;
        2'd3: bytes = bytes + 7'd4;
      endcase
    if (whole) bytes = 7'd32;
  end
  wire [271:0] given = whole ? {16'd0, m_payload} : {m_payload, m_tags};
  wire         ends = give && (whole ? closed : left <= 14'd8);
  wire         dropped = !whole && !closed && left <= 14'd8 && inside >= bytes;  // a surplus burst

  logic [6:0] remaining;
  always_comb begin
    remaining = inside;
    if (give) remaining = ends || bytes > inside ? 7'd0 : inside - bytes;
  end
  always_ff @(posedge clk) begin
    inside <= remaining + (take && !dropped ? 7'd32 : 7'd0);
    if (take) closed <= s_last;
    else if (ends) closed <= 1'b0;
    if (take) whole <= s_whole;
    else if (ends) whole <= 1'b1;
    if (take && !s_whole && whole) left <= s_values;
    else if (give && !whole) left <= left - 14'd8;
    if (take && watch && !dropped) begin
      watching <= 1'b1;
      ahead <= remaining + index;
      watched <= s_data[8*index+:8];
    end else if (give) begin
      watching <= watching && !ends && ahead >= bytes;
      ahead <= ahead - bytes;
    end
  end

  always_comb
    if (!rst) begin
      assert (m_valid || s_ready);
      if (m_valid) begin
        assert (m_last == (whole ? closed : left <= 14'd8));
        assert (m_error || inside >= bytes || (!m_last && closed));
        assert (!watching || ahead >= bytes || given[8*ahead+:8] == watched);
      end
      // Makes these assertions inductive.
      assert ({dut_count, 5'd0} - dut_place == inside && dut_whole == whole && dut_ended == closed);
      assert (whole || (dut_left == left && left != 14'd0));
      assert (inside <= 7'd96 && (dut_place == 5'd0 || dut_count != 2'd0));
      assert (!whole || inside == 7'd0 || inside == 7'd32);
      assert (!closed || !whole || inside == 7'd32);
      assert (closed ? first : whole ? 1'b1 : coded);
      assert (closed || !whole || inside == 7'd0 || !first);
      assert (!(whole && coded));
      assert (!whole || dut_place == 5'd0);
      assert (dut_bursts >> {dut_count, 8'd0} == 768'd0);
      assert (!watching || (ahead < inside && dut_bursts[8*(dut_place+ahead)+:8] == watched));
    end
endmodule
