// The compressor on a chip with fewer pins than the engine has bits. Data come from the chip's
// memory, and the remaining inputs bit by bit. The outputs are folded to one bit.
module ice40_compressor (
    input  logic clk,
    input  logic rst,
    input  logic serial_in,
    output logic serial_out
);
  logic [60:0] in;
  always_ff @(posedge clk) in <= {in[59:0], serial_in};

  logic [255:0] s_axis_tdata;
  ice40_source source (.clk, .rst, .which(in[60:57]), .in(in[56:41]), .out(s_axis_tdata));

  logic         s_axis_tready, m_axis_tvalid, m_axis_tlast;
  logic [255:0] m_axis_tdata;
  logic [31:0]  m_axis_tkeep;
  inceptionn_compressor compressor (
      .clk, .rst, .setting_write(in[0]), .setting(in[5:1]),
      .s_axis_tvalid(in[6]), .s_axis_tready, .s_axis_tlast(in[7]), .m_axis_tready(in[8]),
      .s_axis_tkeep(in[40:9]), .s_axis_tdata,
      .m_axis_tvalid, .m_axis_tdata, .m_axis_tkeep, .m_axis_tlast
  );

  ice40_fold #(.WIDTH(291)) fold (
      .clk,
      .in({s_axis_tready, m_axis_tvalid, m_axis_tlast, m_axis_tkeep, m_axis_tdata}),
      .out(serial_out)
  );
endmodule
