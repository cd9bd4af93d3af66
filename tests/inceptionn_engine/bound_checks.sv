// Checks the handshake rule at every stage of the simulated engine.
bind inceptionn_stage handshake #(.WIDTH(WIDTH)) output_handshake (
    .clk, .rst, .valid(m_valid), .ready(m_ready), .data(m_data));
bind inceptionn_packer handshake #(.WIDTH(289)) output_handshake (
    .clk, .rst, .valid(m_valid), .ready(m_ready), .data({m_data, m_keep, m_last}));
bind inceptionn_unpacker handshake #(.WIDTH(306)) output_handshake (
    .clk, .rst, .valid(m_valid), .ready(m_ready),
    .data({m_tags, m_payload, m_last, m_keep, m_error}));
