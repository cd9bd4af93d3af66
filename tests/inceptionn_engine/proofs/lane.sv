// Proves for the two lane modules, for all 2^32 values and all settings: the tag of every value,
// the error bound, and that encoding a decoded value again changes nothing.
module lane (
    input logic [31:0] value,
    input logic [3:0]  bound_exponent,
    input logic        as_drawn
);
  always_comb assume (bound_exponent != 4'd0 && bound_exponent != 4'd15);

  logic [1:0]  tag, next_tag;
  logic [31:0] payload, next_payload, received, next_received;
  wire  [2:0]  half_exponent = bound_exponent[3:1];
  inceptionn_lane_compressor compressor (
      .value, .present(1'b1), .whole(1'b0), .bound_exponent, .as_drawn, .tag, .payload);
  inceptionn_lane_decompressor decompressor (
      .tag, .payload, .half_exponent, .as_drawn, .value(received));
  inceptionn_lane_compressor next_compressor (
      .value(received), .present(1'b1), .whole(1'b0), .bound_exponent, .as_drawn,
      .tag(next_tag), .payload(next_payload));
  inceptionn_lane_decompressor next_decompressor (
      .tag(next_tag), .payload(next_payload), .half_exponent, .as_drawn, .value(next_received));

  // Magnitudes have the same order as their bits.
  wire [30:0] magnitude = value[30:0];
  wire [30:0] bound = {8'd127 - bound_exponent, 23'd0};          // 2^-E
  wire [30:0] middle = {8'd127 - bound_exponent[3:1], 23'd0};    // 2^-F
  wire [30:0] one = {8'd127, 23'd0};

  // In units of 2^-37: 2^-14, the smallest bound, has exponent 113.
  wire [37:0] sent = {1'b1, value[22:0]} << (value[30:23] - 8'd113);
  wire [37:0] came =
      received[30:0] == 31'd0 ? 38'd0 : {1'b1, received[22:0]} << (received[30:23] - 8'd113);
  wire [3:0]  worst = as_drawn && bound_exponent > 4'd7 ? 4'd7 : bound_exponent;

  always_comb begin
    assert (tag == (magnitude < bound ? 2'd0 : magnitude < middle ? 2'd1 : magnitude < one ? 2'd2 : 2'd3));
    if (tag == 2'd0) assert (received == 32'd0);
    if (tag == 2'd1 || tag == 2'd2) begin
      assert (received == 32'd0 || (received[31] == value[31] && received[30:23] >= 8'd113));
      assert (came <= sent && sent - came < 38'd1 << (6'd37 - worst));
      assert (tag == 2'd1 || sent - came < 38'd1 << 22);  // 2^-15
    end
    if (tag == 2'd3) assert (received == value);
    assert (next_received == received);
  end
endmodule
