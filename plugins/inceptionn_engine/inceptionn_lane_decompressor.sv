// Decodes one value from its tag and payload. Combinational. The inverse of
// inceptionn_lane_compressor; gives -0 only from a payload of 32 bits.
module inceptionn_lane_decompressor (
    input  logic [1:0]  tag,
    input  logic [31:0] payload,        // arbitrary above its bytes
    input  logic [2:0]  half_exponent,  // F = floor(E/2)
    input  logic        as_drawn,
    output logic [31:0] value           // IEEE 754
);
  // A multiple of 2^-15, or of 2^-(F+15).
  wire [14:0] magnitude = tag == 2'd1 ? {payload[6:0], 8'd0} : payload[14:0];
  wire        sign = tag == 2'd1 ? payload[7] : payload[15];
  wire [7:0]  skipped = tag == 2'd1 && !as_drawn ? {5'd0, half_exponent} : 8'd0;

  // Shifts the leading one to bit 14; the distance gives the exponent.
  logic [3:0]  zeros;
  logic [14:0] leading;
  always_comb begin
    leading = magnitude;
    zeros = 4'd0;
    for (int step = 3; step >= 0; step = step - 1)
      if ((leading >> (15 - (1 << step))) == 15'd0) begin
        leading = leading << (1 << step);
        zeros[step] = 1'b1;
      end
  end

  always_comb begin
    if (tag == 2'd3) value = payload;
    else if (tag == 2'd0 || !leading[14]) value = 32'd0;
    else value = {sign, 8'd126 - {4'd0, zeros} - skipped, leading[13:0], 9'd0};
  end
endmodule
