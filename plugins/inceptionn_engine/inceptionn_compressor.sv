// Packets in, packets out, as AXI4-Streams of 256 bits. Encodes the payloads of packets with the
// right type of service, 8 values per beat; headers and all other packets pass.
// inceptionn_classifier.sv decides, and holds the setting.
module inceptionn_compressor #(
    parameter int         HEADER_BEATS    = 2,
    parameter logic [7:0] TYPE_OF_SERVICE = 8'h28,
    parameter int         HEADER_LENGTH   = 40
) (
    input  logic         clk,
    input  logic         rst,  // synchronous
    input  logic         setting_write,
    input  logic [4:0]   setting,
    input  logic         s_axis_tvalid,
    output logic         s_axis_tready,
    input  logic [255:0] s_axis_tdata,
    input  logic [31:0]  s_axis_tkeep,  // all ones except in the last beat
    input  logic         s_axis_tlast,
    output logic         m_axis_tvalid,
    input  logic         m_axis_tready,
    output logic [255:0] m_axis_tdata,
    output logic [31:0]  m_axis_tkeep,
    output logic         m_axis_tlast
);
  logic        whole, cut, as_drawn;
  logic [13:0] values;
  logic [3:0]  bound_exponent;
  inceptionn_classifier #(
      .HEADER_BEATS(HEADER_BEATS),
      .TYPE_OF_SERVICE(TYPE_OF_SERVICE),
      .HEADER_LENGTH(HEADER_LENGTH)
  ) classifier (
      .clk, .rst, .setting_write, .setting,
      .valid(s_axis_tvalid), .ready(s_axis_tready), .data(s_axis_tdata[143:0]), .last(s_axis_tlast),
      .whole, .cut, .values, .bound_exponent, .as_drawn
  );
  wire unused = &{1'b0, cut, values};  // tkeep marks the valid bytes

  // ---- Values to tags and payloads
  logic [15:0]  lane_tags;
  logic [255:0] lane_payloads;
  for (genvar i = 0; i < 8; i = i + 1) begin : lane
    inceptionn_lane_compressor compressor (
        .value(s_axis_tdata[32*i+:32]), .present(s_axis_tkeep[4*i+3]), .whole,
        .bound_exponent, .as_drawn, .tag(lane_tags[2*i+:2]), .payload(lane_payloads[32*i+:32])
    );
  end

  logic         coded_valid, coded_ready, coded_whole, coded_last;
  logic [31:0]  coded_keep;
  logic [15:0]  coded_tags;
  logic [255:0] coded_payloads;
  inceptionn_stage #(.WIDTH(306)) coded (
      .clk, .rst,
      .s_valid(s_axis_tvalid), .s_ready(s_axis_tready),
      .s_data({whole, s_axis_tlast, whole ? s_axis_tkeep : 32'hffffffff, lane_tags, lane_payloads}),
      .m_valid(coded_valid), .m_ready(coded_ready),
      .m_data({coded_whole, coded_last, coded_keep, coded_tags, coded_payloads})
  );

  // ---- Payloads of two lanes, and of four, concatenated
  logic [255:0] four_payloads;
  logic [9:0]   four_bytes;
  for (genvar i = 0; i < 2; i = i + 1) begin : four
    logic [127:0] two_payloads;
    logic [7:0]   two_bytes;
    for (genvar j = 0; j < 2; j = j + 1) begin : two
      wire [3:0] tags = coded_tags[8*i+4*j+:4];
      inceptionn_join #(.BYTES(4)) join_lanes (
          .low(coded_payloads[128*i+64*j+:32]),
          .low_bytes({tags[1:0] == 2'd3, tags[1:0] == 2'd2, tags[1:0] == 2'd1}),
          .high(coded_payloads[128*i+64*j+32+:32]),
          .high_bytes({tags[3:2] == 2'd3, tags[3:2] == 2'd2, tags[3:2] == 2'd1}),
          .both(two_payloads[64*j+:64]), .both_bytes(two_bytes[4*j+:4])
      );
    end
    inceptionn_join #(.BYTES(8)) join_twos (
        .low(two_payloads[63:0]), .low_bytes(two_bytes[3:0]),
        .high(two_payloads[127:64]), .high_bytes(two_bytes[7:4]),
        .both(four_payloads[128*i+:128]), .both_bytes(four_bytes[5*i+:5])
    );
  end

  logic         fours_valid, fours_ready, fours_whole, fours_last;
  logic [31:0]  fours_keep;
  logic [15:0]  fours_tags;
  logic [9:0]   fours_bytes;
  logic [255:0] fours_payloads;
  inceptionn_stage #(.WIDTH(316)) fours (
      .clk, .rst,
      .s_valid(coded_valid), .s_ready(coded_ready),
      .s_data({coded_whole, coded_last, coded_keep, coded_tags, four_bytes, four_payloads}),
      .m_valid(fours_valid), .m_ready(fours_ready),
      .m_data({fours_whole, fours_last, fours_keep, fours_tags, fours_bytes, fours_payloads})
  );

  // ---- Payloads of all eight lanes, concatenated
  logic [255:0] eight_payloads;
  logic [5:0]   eight_bytes;
  inceptionn_join #(.BYTES(16)) join_fours (
      .low(fours_payloads[127:0]), .low_bytes(fours_bytes[4:0]),
      .high(fours_payloads[255:128]), .high_bytes(fours_bytes[9:5]),
      .both(eight_payloads), .both_bytes(eight_bytes)
  );

  logic         group_valid, group_ready, group_whole, group_last;
  logic [31:0]  group_keep;
  logic [15:0]  group_tags;
  logic [5:0]   group_bytes;
  logic [255:0] group_payload;
  inceptionn_stage #(.WIDTH(312)) group (
      .clk, .rst,
      .s_valid(fours_valid), .s_ready(fours_ready),
      .s_data({fours_whole, fours_last, fours_keep, fours_tags, eight_bytes, eight_payloads}),
      .m_valid(group_valid), .m_ready(group_ready),
      .m_data({group_whole, group_last, group_keep, group_tags, group_bytes, group_payload})
  );

  // ---- Groups to bursts
  inceptionn_packer packer (
      .clk, .rst,
      .s_valid(group_valid), .s_ready(group_ready), .s_tags(group_tags),
      .s_payload(group_payload), .s_bytes(group_bytes), .s_whole(group_whole),
      .s_last(group_last), .s_keep(group_keep),
      .m_valid(m_axis_tvalid), .m_ready(m_axis_tready), .m_data(m_axis_tdata),
      .m_keep(m_axis_tkeep), .m_last(m_axis_tlast)
  );
endmodule
