// Takes bursts of 32 bytes apart into groups of 2 to 34 bytes: the reverse of inceptionn_packer.
//
// The number of values of a packet is known. A packet with other bytes than so many values have
// gives as many values all the same, and m_error with the last of them; these are the packets that
// hcomp::inceptionn_bursts::check refuses.
module inceptionn_unpacker (
    input  logic         clk,
    input  logic         rst,
    input  logic         s_valid,
    output logic         s_ready,
    input  logic [255:0] s_data,
    input  logic         s_whole,   // a beat of a header, passed on as it is
    input  logic         s_last,    // of its packet
    input  logic [31:0]  s_keep,
    input  logic         s_cut,     // with s_last: the packet has lost its values
    input  logic [13:0]  s_values,  // of the packet; at its first beat that is not s_whole
    output logic         m_valid,
    input  logic         m_ready,
    output logic [15:0]  m_tags,
    output logic [255:0] m_payload,
    output logic         m_last,
    output logic [31:0]  m_keep,
    output logic         m_error
);
  // A burst is taken when 33 bytes or less are left: a group that needs more is complete.
  logic [519:0] buffer;  // zeros above its bytes
  logic [6:0]   fill;    // bytes in the buffer
  logic         whole;   // they are to be passed on as they are
  logic         ended;   // the last of them are the end of a packet
  logic [13:0]  left;    // values that are still to come
  logic         bad;     // something was wrong already
  logic [31:0]  last_keep;

  wire [15:0] tags = buffer[15:0];
  logic [6:0] bytes;  // of the group in front
  always_comb begin
    bytes = 7'd2;
    for (int i = 0; i < 8; i = i + 1)
      bytes = bytes + (tags[2*i+:2] == 2'd3 ? 7'd4 : {5'd0, tags[2*i+:2]});
    if (whole) bytes = 7'd32;
  end

  wire complete = fill >= bytes;
  wire final_group = whole ? ended : left <= 14'd8;
  wire surplus = !whole && final_group && complete && !ended;  // bursts that should not be there

  assign m_valid = whole ? complete : ended || (complete && !final_group);
  wire give = m_valid && m_ready;
  wire finish = give && final_group;

  logic [6:0] rest;
  always_comb begin
    if (!give) rest = fill;
    else if (finish || !complete) rest = '0;
    else rest = fill - bytes;
    if (m_valid && !m_ready) s_ready = 1'b0;  // what is offered stays the same
    else if (ended) s_ready = finish;
    else if (surplus) s_ready = 1'b1;
    else if (whole) s_ready = rest == '0;
    else s_ready = rest <= 7'd33;
  end
  wire take = s_valid && s_ready;
  wire append = take && !surplus;

  wire [519:0] shifted = buffer >> {bytes, 3'd0};

  // What is wrong with the end of a packet.
  logic dirty;  // behind the last group is not only zeros
  always_comb begin
    dirty = 1'b0;
    for (int i = 2; i < 65; i = i + 1) if (i[6:0] >= bytes && buffer[8*i+:8] != 8'd0) dirty = 1'b1;
  end
  wire [15:0] tags_beyond = tags >> {left[2:0], 1'b0};
  wire bad_end = !complete || fill - bytes >= 7'd32 || dirty || last_keep != '1 ||
                 (left < 14'd8 && tags_beyond != '0);

  assign m_tags = whole ? '1 : tags;
  assign m_payload = whole ? buffer[255:0] : buffer[271:16];
  assign m_last = final_group;
  assign m_error = final_group && (bad || (!whole && bad_end));
  always_comb begin
    m_keep = '1;
    if (whole && ended) m_keep = last_keep;
    if (!whole && left < 14'd8) m_keep = ~(32'hffffffff << {left[2:0], 2'd0});
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      buffer <= '0;
      fill <= '0;
      whole <= 1'b1;
      ended <= 1'b0;
      bad <= 1'b0;
      left <= '0;
    end else begin
      buffer <= (finish ? '0 : give ? shifted : buffer) |
                (append ? {264'd0, s_data} << {rest, 3'd0} : '0);
      fill <= rest + (append ? 7'd32 : '0);
      if (take) whole <= s_whole;
      else if (finish) whole <= 1'b1;
      if (take) ended <= s_last;
      else if (finish) ended <= 1'b0;
      if (take && s_cut) bad <= 1'b1;
      else if (finish) bad <= 1'b0;
      else if ((take && surplus) || (give && !complete)) bad <= 1'b1;
      if (take && whole) left <= s_values;
      else if (give && !whole) left <= left - 14'd8;
    end
    if (take) last_keep <= s_keep;
  end
endmodule
