// Concatenates two runs of up to BYTES bytes. Combinational.
module inceptionn_join #(
    parameter int BYTES = 4
) (
    input  logic [8*BYTES-1:0]           low,  // zeros above its bytes
    input  logic [$clog2(BYTES+1)-1:0]   low_bytes,
    input  logic [8*BYTES-1:0]           high,  // zeros above its bytes
    input  logic [$clog2(BYTES+1)-1:0]   high_bytes,
    output logic [16*BYTES-1:0]          both,
    output logic [$clog2(2*BYTES+1)-1:0] both_bytes
);
  wire [8*BYTES-1:0] zeros = '0;

  assign both = {zeros, low} | ({zeros, high} << {low_bytes, 3'd0});
  assign both_bytes = {1'b0, low_bytes} + {1'b0, high_bytes};
endmodule
