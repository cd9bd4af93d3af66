// Splits bursts of 32 bytes into groups of 2 to 34 bytes: the inverse of inceptionn_packer.
//
// The number of values of a packet is known. A packet with too few or too many bytes for it still
// gives this number of values, and m_error with the last of them. hcomp::inceptionn_bursts::check
// refuses the same packets.
module inceptionn_unpacker (
    input  logic         clk,
    input  logic         rst,
    input  logic         s_valid,
    output logic         s_ready,
    input  logic [255:0] s_data,
    input  logic         s_whole,   // a beat of a header, which passes unchanged
    input  logic         s_last,    // of its packet
    input  logic [31:0]  s_keep,
    input  logic         s_cut,     // with s_last: the packet ends without its values
    input  logic [13:0]  s_values,  // in the packet; valid at its first beat that is not s_whole
    output logic         m_valid,
    input  logic         m_ready,
    output logic [15:0]  m_tags,
    output logic [255:0] m_payload,
    output logic         m_last,
    output logic [31:0]  m_keep,
    output logic         m_error
);
  // A group of 34 bytes that starts at the end of a burst extends over three bursts.
  logic [767:0] bursts;  // zeros where no burst is
  logic [1:0]   count;   // bursts in the buffer
  logic [4:0]   place;   // start of the next group, in the first burst
  logic         whole;   // they pass unchanged
  logic         ended;   // they end a packet
  logic [13:0]  left;    // values still to come
  logic         bad;     // an error was found
  logic [31:0]  last_keep;

  wire [519:0] from_place = bursts[519:0] >> {place, 3'd0};
  wire [15:0]  tags = from_place[15:0];
  logic [6:0]  group_end;  // end of the group
  always_comb begin
    group_end = {2'd0, place} + 7'd2;
    for (int i = 0; i < 8; i = i + 1)
      group_end = group_end + (tags[2*i+:2] == 2'd3 ? 7'd4 : {5'd0, tags[2*i+:2]});
    if (whole) group_end = 7'd32;
  end
  wire [1:0] used = group_end[6:5];  // bursts that the group uses up

  wire complete = {count, 5'd0} >= group_end;
  wire final_group = whole ? ended : left <= 14'd8;
  wire surplus = !whole && final_group && complete && !ended;  // surplus bursts

  assign m_valid = whole ? complete : ended || (complete && !final_group);
  wire give = m_valid && m_ready;
  wire finish = give && final_group;
  wire empties = finish || (give && !complete);

  wire [1:0] rest = empties ? 2'd0 : give ? count - used : count;  // bursts
  always_comb begin
    if (m_valid && !m_ready) s_ready = 1'b0;  // keeps an offered group unchanged
    else if (ended) s_ready = finish;
    else if (surplus) s_ready = 1'b1;
    else if (whole) s_ready = rest == 2'd0;
    else s_ready = rest != 2'd3;
  end
  wire take = s_valid && s_ready;
  wire append = take && !surplus;

  // Errors at the end of a packet.
  logic [95:0] nonzero;  // bytes
  always_comb for (int i = 0; i < 96; i = i + 1) nonzero[i] = bursts[8*i+:8] != 8'd0;
  wire        dirty = (nonzero & {96{1'b1}} << group_end) != '0;  // after the last group
  wire [15:0] tags_beyond = tags >> {left[2:0], 1'b0};
  wire bad_end = !complete || {count, 5'd0} - group_end >= 7'd32 || dirty || last_keep != '1 ||
                 (left < 14'd8 && tags_beyond != '0);

  assign m_tags = whole ? '1 : tags;
  assign m_payload = whole ? bursts[255:0] : from_place[271:16];
  assign m_last = final_group;
  assign m_error = final_group && (bad || (!whole && bad_end));
  always_comb begin
    m_keep = '1;
    if (whole && ended) m_keep = last_keep;
    if (!whole && left < 14'd8) m_keep = ~(32'hffffffff << {left[2:0], 2'd0});
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      count <= '0;
      place <= '0;
      whole <= 1'b1;
      ended <= 1'b0;
      bad <= 1'b0;
      left <= '0;
    end else begin
      count <= rest + {1'b0, append};
      if (empties) place <= '0;
      else if (give) place <= group_end[4:0];
      if (take) whole <= s_whole;
      else if (finish) whole <= 1'b1;
      if (take) ended <= s_last;
      else if (finish) ended <= 1'b0;
      if (take && s_cut) bad <= 1'b1;
      else if (finish) bad <= 1'b0;
      else if ((take && surplus) || (give && !complete)) bad <= 1'b1;
      if (take && whole) left <= s_values;
      else if (give && !whole) left <= left - 14'd8;
    end
    if (take) last_keep <= s_keep;
  end

  wire [1023:0] later = {512'd0, bursts[767:256]};
  for (genvar i = 0; i < 3; i = i + 1) begin : burst
    always_ff @(posedge clk)
      if (rst) bursts[256*i+:256] <= '0;
      else if (append && rest == i) bursts[256*i+:256] <= s_data;
      else if (empties) bursts[256*i+:256] <= '0;
      else if (give && used == 2'd1) bursts[256*i+:256] <= later[256*i+:256];
      else if (give && used == 2'd2) bursts[256*i+:256] <= later[256*i+256+:256];
  end

  wire unused = &{1'b0, from_place[519:272]};
endmodule
