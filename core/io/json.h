/* SPDX-License-Identifier: MIT */
/*
** JSON (RFC 8259) read where it lies, value by value, by whoever knows what should come.
*/
#ifndef RIDGE_IO_JSON_H
#define RIDGE_IO_JSON_H

#include "base/base.h"
#include "ridge/safetensors.h"

typedef struct rg_scan {
  char *text; /* texts are decoded in place: none becomes longer */
  int64_t at;
  int64_t end;
  bool broken; /* a failure was of the JSON, not of what it says */
} rg_scan;

/* The first sign of the next value, or 0 at the end. */
char rg_scan_next(rg_scan *j);

/* Move behind a '{' or '[' that has to come. */
rg_status rg_scan_enter(rg_scan *j, char bracket) RG_CHECK;

/* In a list or object that ends with close: is there another value?  Moves behind the comma or
** the end.  n: how many there were, counted here from 0. */
rg_status rg_scan_more(rg_scan *j, char close, int64_t *n, bool *more) RG_CHECK;

/* A text; out points into j's. */
rg_status rg_scan_text(rg_scan *j, rg_header_text *out) RG_CHECK;

/* A text and the ':' behind it. */
rg_status rg_scan_key(rg_scan *j, rg_header_text *out) RG_CHECK;

/* A whole number from 0; -1: it is another number, and is passed over. */
rg_status rg_scan_whole(rg_scan *j, int64_t *out) RG_CHECK;

/* Pass over any value, which may have others in it 100 deep. */
rg_status rg_scan_skip(rg_scan *j) RG_CHECK;

/* RG_OK where nothing but blanks follows. */
rg_status rg_scan_end(rg_scan *j) RG_CHECK;

/* Is this well-formed UTF-8? */
bool rg_is_utf8(const char *text, int64_t n);

/* Is a text this word? */
bool rg_text_is(rg_header_text text, const char *word);

#endif
