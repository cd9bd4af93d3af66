// Encodes one value: a tag of 2 bits and 0, 1, 2 or 4 bytes of payload. Combinational.
//
// With E = bound_exponent and F = floor(E/2), by the magnitude of the value:
//
//   tag 0  below 2^-E  no payload
//   tag 1  below 2^-F  8 bits: sign, 7 bits of magnitude
//   tag 2  below 1     16 bits: sign, 15 bits of magnitude
//   tag 3  other       all 32 bits; infinity and NaN, too
//
// The payload does not contain the exponent: the fraction, with its hidden one, is shifted right by
// it. Source: Y. Li et al., MICRO 2018, doi 10.1109/MICRO.2018.00023.
module inceptionn_lane_compressor (
    input  logic [31:0] value,           // IEEE 754
    input  logic        present,         // 0: no value; the tag is 0
    input  logic        whole,           // 1: the tag is 3 for any value
    input  logic [3:0]  bound_exponent,  // E, 1 to 14
    input  logic        as_drawn,        // see inceptionn_classifier.sv
    output logic [1:0]  tag,
    output logic [31:0] payload          // zeros above its bytes
);
  wire [7:0] exponent = value[30:23];
  wire [3:0] half = {1'b0, bound_exponent[3:1]};  // F

  always_comb begin
    if (whole) tag = 2'd3;
    else if (!present) tag = 2'd0;
    else if (exponent >= 8'd127) tag = 2'd3;
    else if (exponent >= 8'd127 - {4'd0, half}) tag = 2'd2;
    else if (exponent >= 8'd127 - {4'd0, bound_exponent}) tag = 2'd1;
    else tag = 2'd0;
  end

  // Tags 1 and 2 have exponents 113 to 126, so 4 bits suffice for the shift.
  wire [3:0] skipped = tag == 2'd1 && !as_drawn ? half : 4'd0;
  wire [3:0] shift = 4'd14 - exponent[3:0] - skipped;  // 126 - exponent - skipped
  wire [14:0] magnitude = {1'b1, value[22:9]} >> shift;

  always_comb begin
    case (tag)
      2'd0: payload = 32'd0;
      2'd1: payload = {24'd0, value[31], magnitude[14:8]};
      2'd2: payload = {16'd0, value[31], magnitude};
      2'd3: payload = value;
    endcase
  end
endmodule
