// Decides for every beat of a packet whether it is encoded or passes unchanged, and holds the
// settings. It only observes the stream.
//
// A packet is encoded if its first beat has the header of an IPv4 packet over Ethernet without
// options, whose type of service is TYPE_OF_SERVICE, and whose total length leaves one or more
// complete values after HEADER_LENGTH bytes. Its first HEADER_BEATS beats pass unchanged.
module inceptionn_classifier #(
    parameter int         HEADER_BEATS    = 2,     // 1 to 15
    parameter logic [7:0] TYPE_OF_SERVICE = 8'h28,
    // bytes of IP and TCP headers in the total length
    parameter int         HEADER_LENGTH   = 40
) (
    input  logic         clk,
    input  logic         rst,
    // The setting, which applies from the next packet on. Bits 3 to 0 are E, 1 to 14; with another
    // E all packets pass unchanged. Bit 4: the 7 bits of magnitude with tag 1 are multiples of
    // 2^-7, as in the paper, and not of 2^-(F+7).
    input  logic         setting_write,
    input  logic [4:0]   setting,
    // The stream.
    input  logic         valid,
    input  logic         ready,
    input  logic [143:0] data,  // the first 18 bytes of the beat
    input  logic         last,
    // The decision for this beat.
    output logic         whole,   // passes unchanged
    output logic         cut,     // the packet ends with this beat, without its values
    output logic [13:0]  values,  // of its packet
    output logic [3:0]   bound_exponent,
    output logic         as_drawn
);
  logic [4:0] next_setting;
  logic [3:0] beat;   // of the packet; stays at HEADER_BEATS
  logic       coded;  // of this packet

  wire [15:0] total_length = {data[135:128], data[143:136]};  // network byte order
  wire [15:0] payload = total_length - HEADER_LENGTH[15:0];
  wire [31:0] type_and_service = {data[103:96], data[111:104], data[119:112], data[127:120]};
  wire right_setting = next_setting[3:0] != 4'd0 && next_setting[3:0] != 4'd15;
  wire to_encoded = type_and_service == {24'h080045, TYPE_OF_SERVICE} &&
                 total_length > HEADER_LENGTH[15:0] && payload[1:0] == 2'd0 && right_setting;

  wire in_header = beat != HEADER_BEATS[3:0];
  assign whole = in_header || !coded;
  assign cut = in_header && last && (beat == '0 ? to_encoded : coded);

  always_ff @(posedge clk) begin
    if (rst) begin
      next_setting <= 5'd10;
      beat <= '0;
      coded <= 1'b0;
      values <= '0;
      bound_exponent <= 4'd10;
      as_drawn <= 1'b0;
    end else begin
      if (setting_write) next_setting <= setting;
      if (valid && ready) begin
        if (beat == '0) begin
          coded <= to_encoded;
          values <= payload[15:2];
          {as_drawn, bound_exponent} <= next_setting;
        end
        if (last) beat <= '0;
        else if (in_header) beat <= beat + 4'd1;
      end
    end
  end

  wire unused = &{1'b0, data[95:0]};
endmodule
