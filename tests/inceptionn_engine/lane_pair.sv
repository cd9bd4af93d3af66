// One lane of the compressor and one of the decompressor, for comparison value by value.
module lane_pair (
    input  logic [31:0] value,
    input  logic [3:0]  bound_exponent,
    input  logic        as_drawn,
    output logic [1:0]  sent_tag,
    output logic [31:0] sent_payload,
    input  logic [1:0]  came_tag,
    input  logic [31:0] came_payload,
    output logic [31:0] came_value
);
  inceptionn_lane_compressor compressor (
      .value, .present(1'b1), .whole(1'b0), .bound_exponent, .as_drawn,
      .tag(sent_tag), .payload(sent_payload)
  );
  inceptionn_lane_decompressor decompressor (
      .tag(came_tag), .payload(came_payload), .half_exponent(bound_exponent[3:1]), .as_drawn,
      .value(came_value)
  );
endmodule
