// The valid/ready rule: an offered beat stays valid and unchanged until it is accepted.
module handshake #(
    parameter int WIDTH = 1
) (
    input logic             clk,
    input logic             rst,
    input logic             valid,
    input logic             ready,
    input logic [WIDTH-1:0] data
);
  logic             waiting = 1'b0;
  logic [WIDTH-1:0] offered = '0;

  always_ff @(posedge clk) begin
    waiting <= !rst && valid && !ready;
    offered <= data;
  end

  always_comb
    if (waiting && !rst) begin
      assert (valid);
      assert (data == offered);
    end
endmodule
