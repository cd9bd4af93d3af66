// Delivers 256 bits per clock cycle from the chip's memory, which is written 16 bits at a time.
module ice40_source (
    input  logic         clk,
    input  logic         rst,
    input  logic [3:0]   which,
    input  logic [15:0]  in,
    output logic [255:0] out
);
  logic [7:0] address;
  always_ff @(posedge clk) address <= rst ? 8'd0 : address + 8'd1;

  for (genvar i = 0; i < 16; i = i + 1) begin : block
    logic [15:0] memory[256];
    always_ff @(posedge clk) begin
      if (which == i) memory[address] <= in;
      else out[16*i+:16] <= memory[address];
    end
  end
endmodule
