// Proves that the modules with registers keep the valid/ready rule for any input.
module handshakes (
    input logic         clk,
    input logic         rst,
    input logic         s_valid,
    input logic [255:0] s_data,
    input logic [15:0]  s_tags,
    input logic [5:0]   s_bytes,
    input logic         s_whole,
    input logic         s_last,
    input logic [31:0]  s_keep,
    input logic         s_cut,
    input logic [13:0]  s_values,
    input logic         m_ready
);
  logic started = 1'b0;
  always_ff @(posedge clk) started <= 1'b1;
  always_comb assume (rst == !started);

  logic stage_ready, stage_valid;
  logic [255:0] stage_data;
  inceptionn_stage #(.WIDTH(256)) stage (
      .clk, .rst, .s_valid, .s_ready(stage_ready), .s_data,
      .m_valid(stage_valid), .m_ready, .m_data(stage_data)
  );
  handshake #(.WIDTH(256)) of_stage (
      .clk, .rst, .valid(stage_valid), .ready(m_ready), .data(stage_data)
  );

  logic packer_ready, packer_valid;
  logic [288:0] packer_data;
  inceptionn_packer packer (
      .clk, .rst, .s_valid, .s_ready(packer_ready), .s_tags, .s_payload(s_data), .s_bytes,
      .s_whole, .s_last, .s_keep, .m_valid(packer_valid), .m_ready,
      .m_data(packer_data[255:0]), .m_keep(packer_data[287:256]), .m_last(packer_data[288])
  );
  handshake #(.WIDTH(289)) of_packer (
      .clk, .rst, .valid(packer_valid), .ready(m_ready), .data(packer_data)
  );

  logic unpacker_ready, unpacker_valid;
  logic [305:0] unpacker_data;
  inceptionn_unpacker unpacker (
      .clk, .rst, .s_valid, .s_ready(unpacker_ready), .s_data, .s_whole, .s_last, .s_keep, .s_cut,
      .s_values, .m_valid(unpacker_valid), .m_ready, .m_tags(unpacker_data[15:0]),
      .m_payload(unpacker_data[271:16]), .m_keep(unpacker_data[303:272]),
      .m_last(unpacker_data[304]), .m_error(unpacker_data[305])
  );
  handshake #(.WIDTH(306)) of_unpacker (
      .clk, .rst, .valid(unpacker_valid), .ready(m_ready), .data(unpacker_data)
  );
endmodule
