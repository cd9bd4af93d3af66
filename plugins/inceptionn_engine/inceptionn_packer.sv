// Packs groups of 2 to 34 bytes into bursts of 32, without gaps. Pads the last burst of a packet
// with zeros. Beats of a header are groups of 32 bytes without tags.
//
// It accepts a group and outputs a burst in every cycle. A group waits only while complete bursts
// are before it.
module inceptionn_packer (
    input  logic         clk,
    input  logic         rst,
    input  logic         s_valid,
    output logic         s_ready,
    input  logic [15:0]  s_tags,
    input  logic [255:0] s_payload,  // zeros above its bytes
    input  logic [5:0]   s_bytes,    // of the payload
    input  logic         s_whole,    // 32 bytes without tags
    input  logic         s_last,     // of its packet
    input  logic [31:0]  s_keep,     // valid bytes of the packet's last burst
    output logic         m_valid,
    input  logic         m_ready,
    output logic [255:0] m_data,
    output logic [31:0]  m_keep,
    output logic         m_last
);
  // Accepts a group when less than a burst remains: 31 + 34 bytes at most.
  logic [519:0] buffer;  // zeros above its bytes
  logic [6:0]   fill;    // bytes in the buffer
  logic         ending;  // they end a packet
  logic [31:0]  last_keep;

  wire last_burst = fill <= 7'd32;
  assign m_valid = fill >= 7'd32 || ending;
  assign m_data = buffer[255:0];
  assign m_last = ending && last_burst;
  assign m_keep = m_last ? last_keep : '1;

  wire give = m_valid && m_ready;
  assign s_ready = ending ? give && last_burst : fill < 7'd32 || (give && fill < 7'd64);
  wire take = s_valid && s_ready;

  wire [271:0] group = s_whole ? {16'd0, s_payload} : {s_payload, s_tags};
  wire [6:0]   group_bytes = s_whole ? 7'd32 : {1'b0, s_bytes} + 7'd2;
  wire [4:0]   place = ending ? 5'd0 : fill[4:0];
  wire [519:0] placed = {248'd0, group} << {place, 3'd0};

  always_ff @(posedge clk) begin
    if (rst) begin
      buffer <= '0;
      fill <= '0;
      ending <= 1'b0;
    end else begin
      buffer <= (give ? buffer >> 256 : buffer) | (take ? placed : '0);
      fill <= (!give ? fill : last_burst ? '0 : fill - 7'd32) + (take ? group_bytes : '0);
      if (take) ending <= s_last;
      else if (give && last_burst) ending <= 1'b0;
    end
    if (take) last_keep <= s_keep;
  end
endmodule
