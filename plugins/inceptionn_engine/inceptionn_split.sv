// The inverse of inceptionn_join: separates two runs of up to BYTES bytes. Combinational.
module inceptionn_split #(
    parameter int BYTES = 4
) (
    input  logic [16*BYTES-1:0]        both,
    input  logic [$clog2(BYTES+1)-1:0] low_bytes,
    output logic [8*BYTES-1:0]         low,  // arbitrary above its bytes
    output logic [8*BYTES-1:0]         high  // arbitrary above its bytes
);
  wire [16*BYTES-1:0] shifted = both >> {low_bytes, 3'd0};

  assign low = both[8*BYTES-1:0];
  assign high = shifted[8*BYTES-1:0];

  wire unused = &{1'b0, shifted[16*BYTES-1:8*BYTES]};
endmodule
