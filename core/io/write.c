/* SPDX-License-Identifier: MIT */
/*
** Writing messages: one buffer.  The length of a message is known when it ends; what it holds is
** then moved to make room for it.  That is cheap, because elements are not in the buffer: they are
** gaps, which the length counts.
*/
#include <string.h>

#include "base/base.h"
#include "io/io.h"

enum { MOST_OPEN = 64, MOST_LENGTH = 10 };

typedef struct open_message {
  int64_t start; /* of what it holds, in data */
  int64_t gaps;  /* bytes of gaps before it */
  int32_t first_gap;
  int32_t message;
} open_message;

struct rg_onnx_writer {
  char *data;
  int64_t bytes;
  int64_t room;
  int64_t *gaps;
  int64_t gap_bytes; /* of all */
  int32_t n_gaps;
  int32_t gap_room;
  int32_t n_open;
  int32_t _pad;
  open_message open[MOST_OPEN];
};

rg_status rg_onnx_writer_new(rg_onnx_writer **out)
{
  rg_onnx_writer *w;

  if (out == NULL) {
    return rg_fail(RG_EARG, "onnx: a pointer is NULL");
  }
  w = rg_host_zeroed(sizeof(*w));
  if (w == NULL) {
    return rg_fail(RG_ENOMEM, "onnx: no memory to write");
  }
  w->n_open = 1;
  w->open[0].message = RG_ONNX_model;
  *out = w;
  return RG_OK;
}

void rg_onnx_writer_release(rg_onnx_writer *writer)
{
  if (writer != NULL) {
    rg_host_free(writer->data);
    rg_host_free(writer->gaps);
    rg_host_free(writer);
  }
}

/* Room for so many bytes more. */
static rg_status reserve(rg_onnx_writer *w, int64_t bytes)
{
  int64_t room = w->room > 0 ? w->room : 4096;
  char *data;

  if (bytes <= w->room - w->bytes) {
    return RG_OK;
  }
  while (room - w->bytes < bytes) {
    if (__builtin_mul_overflow(room, 2, &room)) {
      return rg_fail(RG_ENOMEM, "onnx: no memory to write");
    }
  }
  data = rg_host_alloc((size_t)room);
  if (data == NULL) {
    return rg_fail(RG_ENOMEM, "onnx: no memory for %lld bytes", (long long)room);
  }
  if (w->bytes > 0) {
    memcpy(data, w->data, (size_t)w->bytes);
  }
  rg_host_free(w->data);
  w->data = data;
  w->room = room;
  return RG_OK;
}

static int32_t put_varint(char *to, uint64_t value)
{
  int32_t n = 0;

  while (value >= 0x80) {
    to[n++] = (char)(value | 0x80);
    value >>= 7;
  }
  to[n++] = (char)value;
  return n;
}

static void varint(rg_onnx_writer *w, uint64_t value)
{
  w->bytes += put_varint(w->data + w->bytes, value);
}

/* The tag of a field of the open message, and room behind it. */
static rg_status tag(rg_onnx_writer *w, int32_t field, int32_t kind, int32_t wire, int64_t bytes)
{
  const rg_onnx_field *f = rg_onnx_field_of(field);

  if (w == NULL || f == NULL || f->message != w->open[w->n_open - 1].message) {
    return rg_fail(RG_EARG, "onnx: a %s has no field %s",
                   w == NULL ? "?" : rg_onnx_message_name(w->open[w->n_open - 1].message),
                   f == NULL ? "of this number" : f->name);
  }
  if (f->kind != kind && !(kind == RG_ONNX_TEXT && f->kind == RG_ONNX_MESSAGE)) {
    return rg_fail(RG_EARG, "onnx: %s of a %s is of another kind", f->name,
                   rg_onnx_message_name(f->message));
  }
  RG_TRY(reserve(w, bytes + 2 * MOST_LENGTH));
  varint(w, (uint64_t)f->number << 3 | (uint64_t)wire);
  return RG_OK;
}

rg_status rg_onnx_begin(rg_onnx_writer *writer, int32_t field)
{
  if (writer != NULL && writer->n_open == MOST_OPEN) {
    return rg_fail(RG_EARG, "onnx: more than %d messages in each other", MOST_OPEN);
  }
  const rg_onnx_field *f = rg_onnx_field_of(field);
  if (f != NULL && f->kind != RG_ONNX_MESSAGE) {
    return rg_fail(RG_EARG, "onnx: %s of a %s is no message", f->name,
                   rg_onnx_message_name(f->message));
  }
  RG_TRY(tag(writer, field, RG_ONNX_MESSAGE, WIRE_BYTES, 0));
  writer->open[writer->n_open++] = (open_message){ .start = writer->bytes,
                                                   .gaps = writer->gap_bytes,
                                                   .first_gap = writer->n_gaps,
                                                   .message = f->value };
  return RG_OK;
}

rg_status rg_onnx_end(rg_onnx_writer *writer)
{
  open_message *m;
  char length[MOST_LENGTH];
  int64_t held;
  int32_t n;

  if (writer == NULL || writer->n_open < 2) {
    return rg_fail(RG_EARG, "onnx: no message is open");
  }
  RG_TRY(reserve(writer, MOST_LENGTH));
  m = &writer->open[writer->n_open - 1];
  held = writer->bytes - m->start;
  n = put_varint(length, (uint64_t)(held + writer->gap_bytes - m->gaps));
  memmove(writer->data + m->start + n, writer->data + m->start, (size_t)held);
  memcpy(writer->data + m->start, length, (size_t)n);
  writer->bytes += n;
  for (int32_t i = m->first_gap; i < writer->n_gaps; i++) {
    writer->gaps[i] += n;
  }
  writer->n_open--;
  return RG_OK;
}

rg_status rg_onnx_put_int(rg_onnx_writer *writer, int32_t field, int64_t value)
{
  RG_TRY(tag(writer, field, RG_ONNX_INT, WIRE_VARINT, 0));
  varint(writer, (uint64_t)value);
  return RG_OK;
}

rg_status rg_onnx_put_float(rg_onnx_writer *writer, int32_t field, float value)
{
  RG_TRY(tag(writer, field, RG_ONNX_FLOAT, WIRE_4, 0));
  memcpy(writer->data + writer->bytes, &value, 4);
  writer->bytes += 4;
  return RG_OK;
}

rg_status rg_onnx_put_text(rg_onnx_writer *writer, int32_t field, const char *text, int64_t bytes)
{
  if (bytes < 0 || (bytes > 0 && text == NULL)) {
    return rg_fail(RG_EARG, "onnx: a text of %lld bytes", (long long)bytes);
  }
  RG_TRY(tag(writer, field, RG_ONNX_TEXT, WIRE_BYTES, bytes));
  varint(writer, (uint64_t)bytes);
  if (bytes > 0) {
    memcpy(writer->data + writer->bytes, text, (size_t)bytes);
  }
  writer->bytes += bytes;
  return RG_OK;
}

rg_status rg_onnx_put_message(rg_onnx_writer *writer, const char *data, int64_t bytes)
{
  if (writer == NULL || bytes < 0 || (bytes > 0 && data == NULL)) {
    return rg_fail(RG_EARG, "onnx: a message of %lld bytes", (long long)bytes);
  }
  RG_TRY(reserve(writer, bytes));
  if (bytes > 0) {
    memcpy(writer->data + writer->bytes, data, (size_t)bytes);
  }
  writer->bytes += bytes;
  return RG_OK;
}

rg_status rg_onnx_put_ints(rg_onnx_writer *writer, int32_t field, const int64_t *values, int64_t n)
{
  char one[MOST_LENGTH];
  int64_t bytes = 0;

  if (n < 0 || n > INT64_MAX / 64 || (n > 0 && values == NULL)) {
    return rg_fail(RG_EARG, "onnx: a list of %lld numbers", (long long)n);
  }
  for (int64_t i = 0; i < n; i++) {
    bytes += put_varint(one, (uint64_t)values[i]);
  }
  RG_TRY(tag(writer, field, RG_ONNX_INT, WIRE_BYTES, bytes));
  varint(writer, (uint64_t)bytes);
  for (int64_t i = 0; i < n; i++) {
    varint(writer, (uint64_t)values[i]);
  }
  return RG_OK;
}

rg_status rg_onnx_put_floats(rg_onnx_writer *writer, int32_t field, const float *values, int64_t n)
{
  if (n < 0 || n > INT64_MAX / 64 || (n > 0 && values == NULL)) {
    return rg_fail(RG_EARG, "onnx: a list of %lld numbers", (long long)n);
  }
  RG_TRY(tag(writer, field, RG_ONNX_FLOAT, WIRE_BYTES, 4 * n));
  varint(writer, (uint64_t)(4 * n));
  if (n > 0) {
    memcpy(writer->data + writer->bytes, values, (size_t)(4 * n));
  }
  writer->bytes += 4 * n;
  return RG_OK;
}

rg_status rg_onnx_put_gap(rg_onnx_writer *writer, int32_t field, int64_t bytes)
{
  if (bytes < 0) {
    return rg_fail(RG_EARG, "onnx: a gap of %lld bytes", (long long)bytes);
  }
  if (writer != NULL && writer->n_gaps == writer->gap_room) {
    int32_t room = writer->gap_room > 0 ? 2 * writer->gap_room : 64;
    int64_t *gaps = rg_host_alloc((size_t)room * sizeof(*gaps));

    if (gaps == NULL) {
      return rg_fail(RG_ENOMEM, "onnx: no memory to write");
    }
    if (writer->n_gaps > 0) {
      memcpy(gaps, writer->gaps, (size_t)writer->n_gaps * sizeof(*gaps));
    }
    rg_host_free(writer->gaps);
    writer->gaps = gaps;
    writer->gap_room = room;
  }
  RG_TRY(tag(writer, field, RG_ONNX_TEXT, WIRE_BYTES, 0));
  varint(writer, (uint64_t)bytes);
  writer->gaps[writer->n_gaps++] = writer->bytes;
  writer->gap_bytes += bytes;
  return RG_OK;
}

void rg_onnx_written_of(const rg_onnx_writer *writer, rg_onnx_written *out)
{
  *out = (rg_onnx_written){ .data = writer->data,
                            .gaps = writer->gaps,
                            .bytes = writer->bytes,
                            .whole = writer->bytes + writer->gap_bytes,
                            .n_gaps = writer->n_gaps,
                            .n_open = writer->n_open - 1 };
}
