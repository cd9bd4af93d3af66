// A bit that depends on all bits of `in`, with a register after every fourth bit.
module ice40_fold #(
    parameter int WIDTH = 256
) (
    input  logic             clk,
    input  logic [WIDTH-1:0] in,
    output logic             out
);
  logic [1023:0] first;
  assign first = {{(1024 - WIDTH) {1'b0}}, in};
  logic [255:0] second;
  logic [63:0] third;
  logic [15:0] fourth;
  logic [3:0] fifth;
  always_ff @(posedge clk) begin
    for (int i = 0; i < 256; i = i + 1) second[i] <= ^first[4*i+:4];
    for (int i = 0; i < 64; i = i + 1) third[i] <= ^second[4*i+:4];
    for (int i = 0; i < 16; i = i + 1) fourth[i] <= ^third[4*i+:4];
    for (int i = 0; i < 4; i = i + 1) fifth[i] <= ^fourth[4*i+:4];
    out <= ^fifth;
  end
endmodule
