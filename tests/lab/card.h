#pragma once
/* Interface of libhcomp_lab_card.so for the lab's switch: a network card with INCEPTIONN's
   engine. */

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lab_card lab_card;

/* @param bound_exponent  E, 1 to 14: values below 2^-E become 0 */
lab_card* lab_card_make(unsigned bound_exponent);

/* Passes one packet through the compressor (leaves: not 0) or the decompressor, in the format of
   plugins/inceptionn_engine/README.md: two beats of header, then values or bursts.
   @param cycles  the clock cycles are added to it
   @return bytes in `out`; -1: a damaged packet, or one that exceeds the room */
long lab_card_pass(lab_card* card, int leaves, unsigned char const* packet, unsigned long bytes,
                   unsigned char* out, unsigned long capacity, unsigned long* cycles);

#ifdef __cplusplus
}
#endif
