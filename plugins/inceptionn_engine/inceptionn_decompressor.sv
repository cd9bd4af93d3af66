// The inverse of inceptionn_compressor: decodes payloads of the right type of service, up to 8
// values per beat. The total length in a packet's header gives the number of its values. The
// compressor does not change it.
module inceptionn_decompressor #(
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
    output logic         m_axis_tlast,
    output logic         m_axis_tuser  // with tlast: the packet was damaged
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

  // The setting of the packet in the unpacker. A packet leaves the unpacker before the next one
  // enters.
  logic [3:0] unpacker_setting;
  always_ff @(posedge clk)
    if (s_axis_tvalid && s_axis_tready) unpacker_setting <= {as_drawn, bound_exponent[3:1]};
  wire unused = bound_exponent[0];

  // ---- Bursts to groups
  logic         cut_valid, cut_ready, cut_last, cut_error;
  logic [15:0]  cut_tags;
  logic [255:0] cut_payload;
  logic [31:0]  cut_keep;
  inceptionn_unpacker unpacker (
      .clk, .rst,
      .s_valid(s_axis_tvalid), .s_ready(s_axis_tready), .s_data(s_axis_tdata), .s_whole(whole),
      .s_last(s_axis_tlast), .s_keep(s_axis_tkeep), .s_cut(cut), .s_values(values),
      .m_valid(cut_valid), .m_ready(cut_ready), .m_tags(cut_tags), .m_payload(cut_payload),
      .m_last(cut_last), .m_keep(cut_keep), .m_error(cut_error)
  );

  logic         group_valid, group_ready, group_last, group_error;
  logic [3:0]   group_setting;
  logic [15:0]  group_tags;
  logic [255:0] group_payload;
  logic [31:0]  group_keep;
  inceptionn_stage #(.WIDTH(310)) group (
      .clk, .rst,
      .s_valid(cut_valid), .s_ready(cut_ready),
      .s_data({unpacker_setting, cut_last, cut_error, cut_keep, cut_tags, cut_payload}),
      .m_valid(group_valid), .m_ready(group_ready),
      .m_data({group_setting, group_last, group_error, group_keep, group_tags, group_payload})
  );

  // ---- Payloads of four lanes each, and of two
  logic [11:0] two_bytes;  // of the first six lanes
  always_comb
    for (int i = 0; i < 3; i = i + 1)
      two_bytes[4*i+:4] = (group_tags[4*i+:2] == 2'd3 ? 4'd4 : {2'd0, group_tags[4*i+:2]}) +
                          (group_tags[4*i+2+:2] == 2'd3 ? 4'd4 : {2'd0, group_tags[4*i+2+:2]});
  logic [255:0] four_payloads, two_payloads;
  inceptionn_split #(.BYTES(16)) split_eight (
      .both(group_payload), .low_bytes({1'b0, two_bytes[3:0]} + {1'b0, two_bytes[7:4]}),
      .low(four_payloads[127:0]), .high(four_payloads[255:128])
  );
  for (genvar i = 0; i < 2; i = i + 1) begin : four
    inceptionn_split #(.BYTES(8)) split_four (
        .both(four_payloads[128*i+:128]), .low_bytes(two_bytes[8*i+:4]),
        .low(two_payloads[128*i+:64]), .high(two_payloads[128*i+64+:64])
    );
  end

  logic         twos_valid, twos_ready, twos_last, twos_error;
  logic [3:0]   twos_setting;
  logic [15:0]  twos_tags;
  logic [255:0] twos_payloads;
  logic [31:0]  twos_keep;
  inceptionn_stage #(.WIDTH(310)) twos (
      .clk, .rst,
      .s_valid(group_valid), .s_ready(group_ready),
      .s_data({group_setting, group_last, group_error, group_keep, group_tags, two_payloads}),
      .m_valid(twos_valid), .m_ready(twos_ready),
      .m_data({twos_setting, twos_last, twos_error, twos_keep, twos_tags, twos_payloads})
  );

  // ---- Payloads of single lanes, and their values
  logic [255:0] lane_payloads, lane_values;
  for (genvar i = 0; i < 4; i = i + 1) begin : two
    wire [1:0] tag = twos_tags[4*i+:2];
    inceptionn_split #(.BYTES(4)) split_two (
        .both(twos_payloads[64*i+:64]), .low_bytes({tag == 2'd3, tag == 2'd2, tag == 2'd1}),
        .low(lane_payloads[64*i+:32]), .high(lane_payloads[64*i+32+:32])
    );
  end
  for (genvar i = 0; i < 8; i = i + 1) begin : lane
    inceptionn_lane_decompressor decompressor (
        .tag(twos_tags[2*i+:2]), .payload(lane_payloads[32*i+:32]),
        .half_exponent(twos_setting[2:0]), .as_drawn(twos_setting[3]),
        .value(lane_values[32*i+:32])
    );
  end

  inceptionn_stage #(.WIDTH(290)) result (
      .clk, .rst,
      .s_valid(twos_valid), .s_ready(twos_ready),
      .s_data({twos_error, twos_last, twos_keep, lane_values}),
      .m_valid(m_axis_tvalid), .m_ready(m_axis_tready),
      .m_data({m_axis_tuser, m_axis_tlast, m_axis_tkeep, m_axis_tdata})
  );
endmodule
