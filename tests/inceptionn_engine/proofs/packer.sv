// Proves for inceptionn_packer: it never blocks forever. It outputs the bytes of groups in order
// and without gaps, and zeros after a packet's last byte.
//
// The proof tracks one byte, of any group at any time, on its way.
module packer (
    input logic         clk,
    input logic         rst,
    input logic         s_valid,
    input logic [15:0]  s_tags,
    input logic [255:0] anything,
    input logic [5:0]   s_bytes,
    input logic         s_whole,
    input logic         s_last,
    input logic [31:0]  s_keep,
    input logic         m_ready,
    input logic         watch,
    input logic [5:0]   index
);
  logic         s_ready, m_valid, m_last;
  logic [255:0] m_data;
  logic [31:0]  m_keep;
  wire  [255:0] s_payload = anything & ~(256'd0 - 1'b1 << {s_bytes, 3'd0});
  inceptionn_packer dut (.*);

  // Registers of dut, connected by prove.sh.
  wire [519:0] dut_buffer;
  wire [6:0]   dut_fill;
  wire         dut_ending;
  wire [31:0]  dut_last_keep;

  logic started = 1'b0;
  always_ff @(posedge clk) started <= 1'b1;
  always_comb begin
    assume (rst == !started);
    assume (s_bytes <= 6'd32 && (!s_whole || s_bytes == 6'd32));
  end

  wire         take = s_valid && s_ready && !rst;
  wire         give = m_valid && m_ready && !rst;
  wire [271:0] group = s_whole ? {16'd0, s_payload} : {s_payload, s_tags};
  wire [6:0]   group_bytes = s_whole ? 7'd32 : 7'd2 + s_bytes;

  logic [6:0]  inside = '0;     // bytes accepted and not yet output
  logic        closed = 1'b0;   // the last of them end a packet
  logic [31:0] keep = '0;
  logic        watching = 1'b0;
  logic [6:0]  ahead = '0;      // bytes before the tracked one
  logic [7:0]  watched = '0;

  wire [6:0] remaining = !give ? inside : inside > 7'd32 ? inside - 7'd32 : 7'd0;
  always_ff @(posedge clk) begin
    if (take) begin
      inside <= remaining + group_bytes;
      closed <= s_last;
      keep <= s_keep;
    end else begin
      inside <= remaining;
      closed <= closed && remaining != 7'd0;
    end
    if (take && watch && index < group_bytes) begin
      watching <= 1'b1;
      ahead <= remaining + index;
      watched <= group[8*index+:8];
    end else if (give && watching) begin
      watching <= ahead >= 7'd32;
      ahead <= ahead - 7'd32;
    end
  end

  always_comb
    if (!rst) begin
      assert (m_valid || s_ready);
      assert (m_valid == (inside >= 7'd32 || closed));
      assert (!take || !closed || remaining == 7'd0);  // packets do not mix
      if (m_valid) begin
        assert (m_last == (closed && inside <= 7'd32));
        assert (m_keep == (m_last ? keep : 32'hffffffff));
        assert (!m_last || m_data >> {inside, 3'd0} == 256'd0);
        assert (!watching || ahead >= 7'd32 || m_data[8*ahead+:8] == watched);
      end
      // Makes these assertions inductive.
      assert (dut_fill == inside && dut_ending == closed && (!closed || dut_last_keep == keep));
      assert (inside <= 7'd65 && (!closed || inside != 7'd0));
      assert (dut_buffer >> {inside, 3'd0} == 520'd0);
      assert (!watching || (ahead < inside && dut_buffer[8*ahead+:8] == watched));
    end
endmodule
