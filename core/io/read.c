/* SPDX-License-Identifier: MIT */
/*
** Protobuf's wire format, field by field, where it lies.  Every length is looked at before it is
** used, and nothing here calls itself: how deep messages stand in each other is for the caller to
** bound.
*/
#include <string.h>

#include "base/base.h"
#include "io/io.h"

/* A number of up to 64 bits, 7 at a time, the lowest first. */
static bool varint(const char *data, int64_t *at, int64_t end, uint64_t *out)
{
  uint64_t value = 0;

  for (int shift = 0; shift < 70 && *at < end; shift += 7) {
    uint8_t byte = (uint8_t)data[(*at)++];

    value |= shift < 64 ? (uint64_t)(byte & 0x7f) << shift : 0;
    if (byte < 0x80) {
      *out = value;
      return true;
    }
  }
  return false;
}

static rg_status cut(const rg_onnx_cursor *c)
{
  return rg_fail(RG_EFORMAT, "byte %lld: it is cut off in a %s", (long long)c->at,
                 rg_onnx_message_name(c->message));
}

/* The value of a field: moves behind it. */
static rg_status value(rg_onnx_cursor *c, int32_t wire, rg_onnx_item *out)
{
  uint64_t number;

  switch (wire) {
  case WIRE_VARINT:
    if (!varint(c->start, &c->at, c->end, &number)) {
      return cut(c);
    }
    out->whole = (int64_t)number;
    return RG_OK;
  case WIRE_4: {
    float real;

    if (c->end - c->at < 4) {
      return cut(c);
    }
    memcpy(&real, c->start + c->at, 4);
    out->real = (double)real;
    c->at += 4;
    return RG_OK;
  }
  case WIRE_8:
    if (c->end - c->at < 8) {
      return cut(c);
    }
    memcpy(&out->real, c->start + c->at, 8);
    c->at += 8;
    return RG_OK;
  default:
    if (!varint(c->start, &c->at, c->end, &number)) {
      return cut(c);
    }
    if (number > (uint64_t)(c->end - c->at)) {
      return rg_fail(RG_EFORMAT,
                     "byte %lld: a length of %llu bytes in a %s of which %lld bytes are left",
                     (long long)c->at, (unsigned long long)number, rg_onnx_message_name(c->message),
                     (long long)(c->end - c->at));
    }
    out->data = c->start + c->at;
    out->at = c->at;
    out->bytes = (int64_t)number;
    c->at += (int64_t)number;
    return RG_OK;
  }
}

/* Is this how the field's values are stored?  Lists of numbers may be packed. */
static rg_status fits(const rg_onnx_cursor *c, int32_t field, int32_t wire, rg_onnx_item *out)
{
  const rg_onnx_field *f = rg_onnx_field_of(field);
  int64_t one = f->kind == RG_ONNX_FLOAT ? 4 : f->kind == RG_ONNX_DOUBLE ? 8 : 1;

  if (wire == rg_onnx_wire(f->kind)) {
    return RG_OK;
  }
  if (wire != WIRE_BYTES || !f->list) {
    return rg_fail(RG_EFORMAT, "byte %lld: %s of a %s is stored as kind %d, not %d",
                   (long long)c->at, f->name, rg_onnx_message_name(c->message), wire,
                   rg_onnx_wire(f->kind));
  }
  if (out->bytes % one != 0) {
    return rg_fail(RG_EFORMAT, "byte %lld: %s of a %s has %lld bytes, numbers have %lld",
                   (long long)out->at, f->name, rg_onnx_message_name(c->message),
                   (long long)out->bytes, (long long)one);
  }
  out->packed = 1;
  return RG_OK;
}

rg_status rg_onnx_next(rg_onnx_cursor *cursor, rg_onnx_item *out)
{
  if (cursor == NULL || out == NULL) {
    return rg_fail(RG_EARG, "onnx: a pointer is NULL");
  }
  while (cursor->at < cursor->end) {
    rg_onnx_item item = { .field = -1 };
    uint64_t tag;
    int32_t wire;

    if (!varint(cursor->start, &cursor->at, cursor->end, &tag)) {
      return cut(cursor);
    }
    wire = (int32_t)(tag & 7);
    if (tag >> 3 == 0 || tag >> 32 != 0 ||
        (wire != WIRE_VARINT && wire != WIRE_8 && wire != WIRE_BYTES && wire != WIRE_4)) {
      return rg_fail(RG_EFORMAT, "byte %lld: %llu is no field of a %s", (long long)cursor->at,
                     (unsigned long long)tag, rg_onnx_message_name(cursor->message));
    }
    RG_TRY(value(cursor, wire, &item));
    item.field = rg_onnx_find(cursor->message, (int32_t)(tag >> 3));
    if (item.field >= 0) {
      RG_TRY(fits(cursor, item.field, wire, &item));
      *out = item;
      return RG_OK;
    }
  }
  *out = (rg_onnx_item){ .field = -1 };
  return RG_OK;
}

rg_status rg_onnx_unpack(rg_onnx_item *item)
{
  const rg_onnx_field *f = item == NULL ? NULL : rg_onnx_field_of(item->field);
  rg_onnx_cursor c;

  if (f == NULL || item->packed != 1 || item->bytes <= 0) {
    return rg_fail(RG_EARG, "onnx: no packed number is left");
  }
  c = (rg_onnx_cursor){ .start = item->data - item->at,
                        .at = item->at,
                        .end = item->at + item->bytes,
                        .message = f->message };
  rg_onnx_item number = { .field = -1 };
  RG_TRY(value(&c, rg_onnx_wire(f->kind), &number));
  item->whole = number.whole;
  item->real = number.real;
  item->data += c.at - item->at;
  item->bytes -= c.at - item->at;
  item->at = c.at;
  return RG_OK;
}
