/* SPDX-License-Identifier: MIT */
/*
** Writing safetensors files: the header, in the canonical form that results and addresses have
** elsewhere in ridge (names sorted by bytes, nothing between the signs), and elements.
*/
#include <stdio.h>
#include <string.h>

#include "io/safetensors.h"

/* -- Text that grows -------------------------------------------------------------------------- */

typedef struct text {
  char *data;
  int64_t n;
  int64_t room;
} text;

static rg_status add(text *t, const char *data, int64_t n)
{
  if (n > t->room - t->n) {
    int64_t room = rg_max_i64(2 * t->room, t->n + n + 4096);
    char *larger = rg_host_alloc((size_t)room);

    if (larger == NULL) {
      return rg_fail(RG_ENOMEM, "save: no memory for a header of %lld bytes", (long long)room);
    }
    if (t->n > 0) {
      memcpy(larger, t->data, (size_t)t->n);
    }
    rg_host_free(t->data);
    t->data = larger;
    t->room = room;
  }
  memcpy(t->data + t->n, data, (size_t)n);
  t->n += n;
  return RG_OK;
}

static rg_status add_word(text *t, const char *word)
{
  return add(t, word, (int64_t)strlen(word));
}

static rg_status add_number(text *t, int64_t number)
{
  char digits[24];

  snprintf(digits, sizeof(digits), "%lld", (long long)number);
  return add_word(t, digits);
}

/* What stands for a sign between quotes; NULL: itself. */
static const char *escaped(uint8_t c, char room[8])
{
  switch (c) {
  case '"':
    return "\\\"";
  case '\\':
    return "\\\\";
  case '\b':
    return "\\b";
  case '\f':
    return "\\f";
  case '\n':
    return "\\n";
  case '\r':
    return "\\r";
  case '\t':
    return "\\t";
  default:
    if (c >= 0x20) {
      return NULL;
    }
    snprintf(room, 8, "\\u%04x", c);
    return room;
  }
}

static rg_status add_quoted(text *t, rg_header_text s)
{
  char name[64];

  if (!rg_is_utf8(s.data, s.bytes)) {
    return rg_fail(RG_EARG, "save: the text \"%s\" is not UTF-8 and cannot be stored",
                   rg_shown_name(s, name));
  }
  RG_TRY(add(t, "\"", 1));
  for (int64_t i = 0, from = 0; i <= s.bytes; i++) {
    char room[8];
    const char *sign = i < s.bytes ? escaped((uint8_t)s.data[i], room) : "";

    if (sign != NULL) {
      RG_TRY(add(t, s.data + from, i - from));
      RG_TRY(add_word(t, sign));
      from = i + 1;
    }
  }
  return add(t, "\"", 1);
}

/* -- The header ------------------------------------------------------------------------------- */

static rg_status add_entry(text *t, rg_header_text name, const rg_tensor *x, int64_t *at)
{
  RG_TRY(add_quoted(t, name));
  RG_TRY(add_word(t, ":{\"data_offsets\":["));
  RG_TRY(add_number(t, *at));
  RG_TRY(add(t, ",", 1));
  *at += rg_tensor_bytes(x);
  RG_TRY(add_number(t, *at));
  RG_TRY(add_word(t, "],\"dtype\":\""));
  RG_TRY(add_word(t, rg_safetensors_type(x->_dtype)));
  RG_TRY(add_word(t, "\",\"shape\":["));
  for (int32_t i = 0; i < x->_ndim; i++) {
    RG_TRY(add(t, ",", i > 0));
    RG_TRY(add_number(t, x->_shape[i]));
  }
  return add_word(t, "]}");
}

static rg_status add_notes(text *t, const rg_header_text *notes, int64_t n)
{
  RG_TRY(add_word(t, "\"__metadata__\":{"));
  for (int64_t i = 0; i < n; i++) {
    RG_TRY(add(t, ",", i > 0));
    RG_TRY(add_quoted(t, notes[2 * i]));
    RG_TRY(add(t, ":", 1));
    RG_TRY(add_quoted(t, notes[2 * i + 1]));
  }
  return add(t, "}", 1);
}

/* Does a name stand behind "__metadata__" in the order of bytes? */
static bool is_behind_notes(rg_header_text name)
{
  static const char word[] = "__metadata__";
  int64_t n = rg_min_i64(name.bytes, (int64_t)sizeof(word) - 1);
  int order = n > 0 ? memcmp(name.data, word, (size_t)n) : 0;

  return order > 0 || (order == 0 && name.bytes >= (int64_t)sizeof(word) - 1);
}

static rg_status fill(text *t, const rg_header_text *names, rg_tensor *const *tensors, int64_t n,
                      const rg_header_text *notes, int64_t n_notes)
{
  bool noted = n_notes == 0;
  int64_t at = 0;

  RG_TRY(add(t, "{", 1));
  for (int64_t i = 0; i < n; i++) {
    if (!noted && is_behind_notes(names[i])) {
      RG_TRY(add_notes(t, notes, n_notes));
      RG_TRY(add(t, ",", 1));
      noted = true;
    }
    RG_TRY(add_entry(t, names[i], tensors[i], &at));
    RG_TRY(add(t, ",", i + 1 < n || !noted));
  }
  if (!noted) {
    RG_TRY(add_notes(t, notes, n_notes));
  }
  RG_TRY(add(t, "}", 1));
  while ((t->n + 8) % 8 != 0) { /* the elements begin at a multiple of 8 */
    RG_TRY(add(t, " ", 1));
  }
  return RG_OK;
}

rg_status rg_safetensors_head(const rg_header_text *names, rg_tensor *const *tensors, int64_t n,
                              const rg_header_text *notes, int64_t n_notes, rg_output *out)
{
  text t = { .data = NULL };
  uint8_t length[8];
  rg_status status;

  if (out == NULL || n < 0 || n_notes < 0 || (n > 0 && (names == NULL || tensors == NULL)) ||
      (n_notes > 0 && notes == NULL)) {
    return rg_fail(RG_EARG, "save: a pointer is NULL");
  }
  status = fill(&t, names, tensors, n, notes, n_notes);
  for (int i = 0; i < 8; i++) {
    length[i] = (uint8_t)(t.n >> (8 * i));
  }
  if (status == RG_OK && t.n > RG_LONGEST_HEADER) {
    status = rg_fail(RG_EARG, "save: names and notes take %lld bytes; %d are the most",
                     (long long)t.n, RG_LONGEST_HEADER);
  }
  if (status == RG_OK) {
    status = rg_output_write(out, length, 8);
  }
  if (status == RG_OK) {
    status = rg_output_write(out, t.data, t.n);
  }
  rg_host_free(t.data);
  return status;
}

rg_status rg_safetensors_put(const rg_tensor *x, rg_output *out)
{
  const char *data;
  int64_t left;

  RG_TRY(rg_tensor_check(x, "save"));
  if (out == NULL || x->_device != RG_CPU || (x->_flags & RG_TENSOR_CONTIGUOUS) == 0) {
    return rg_fail(RG_EARG, "save: a contiguous tensor on the CPU is expected");
  }
  data = x->_data;
  left = rg_tensor_bytes(x);
  while (left > 0) {
    int64_t n = rg_min_i64(left, 1 << 24);

    if (rg_interrupt_pending()) {
      return rg_fail(RG_EINTR, "save: interrupted");
    }
    RG_TRY(rg_output_write(out, data, n));
    data += n;
    left -= n;
  }
  return RG_OK;
}
