// As many lanes of the decompressor as fit, behind registers. See ice40_compressor.sv.
module ice40_decompressor_lanes #(
    parameter int LANES = 8
) (
    input  logic clk,
    input  logic serial_in,
    output logic serial_out
);
  logic [34*LANES+3:0] in;
  always_ff @(posedge clk) in <= {in[34*LANES+2:0], serial_in};

  logic [32*LANES-1:0] values, registered;
  for (genvar i = 0; i < LANES; i = i + 1) begin : lane
    inceptionn_lane_decompressor decompressor (
        .tag(in[34*i+4+:2]), .payload(in[34*i+6+:32]), .half_exponent(in[2:0]), .as_drawn(in[3]),
        .value(values[32*i+:32])
    );
  end
  always_ff @(posedge clk) registered <= values;

  ice40_fold #(.WIDTH(32 * LANES)) fold (.clk, .in(registered), .out(serial_out));
endmodule
