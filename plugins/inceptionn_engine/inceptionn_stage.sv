// A register between two stages of a pipeline: holds one item until the next stage takes it.
module inceptionn_stage #(
    parameter int WIDTH = 1
) (
    input  logic             clk,
    input  logic             rst,
    input  logic             s_valid,
    output logic             s_ready,
    input  logic [WIDTH-1:0] s_data,
    output logic             m_valid,
    input  logic             m_ready,
    output logic [WIDTH-1:0] m_data
);
  assign s_ready = !m_valid || m_ready;

  always_ff @(posedge clk) begin
    if (rst) m_valid <= 1'b0;
    else if (s_ready) m_valid <= s_valid;
    if (s_ready) m_data <= s_data;
  end
endmodule
