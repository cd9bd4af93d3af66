// Proves that inceptionn_stage drops, duplicates and changes nothing.
module stage (
    input logic       clk,
    input logic       rst,
    input logic       s_valid,
    input logic [7:0] s_data,
    input logic       m_ready
);
  logic       s_ready, m_valid;
  logic [7:0] m_data;
  inceptionn_stage #(.WIDTH(8)) dut (.*);

  logic started = 1'b0;
  always_ff @(posedge clk) started <= 1'b1;
  always_comb assume (rst == !started);

  logic       holds = 1'b0;
  logic [7:0] item;
  always_ff @(posedge clk) begin
    if (rst) holds <= 1'b0;
    else if (s_valid && s_ready) holds <= 1'b1;
    else if (m_valid && m_ready) holds <= 1'b0;
    if (s_valid && s_ready) item <= s_data;  end

  always_comb
    if (!rst) begin
      assert (m_valid == holds);
      assert (!holds || m_data == item);
      assert (s_ready || holds);  // it never blocks forever
    end
endmodule
