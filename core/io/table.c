/* SPDX-License-Identifier: MIT */
/*
** The messages, fields and element types of ONNX, as tables.
*/
#include "base/base.h"
#include "io/io.h"

#define FIELD_ROW(in, called, no, how, of, many) \
  { .name = #called,                             \
    .message = RG_ONNX_##in,                     \
    .number = (no),                              \
    .kind = RG_ONNX_##how,                       \
    .value = RG_ONNX_##of,                       \
    .list = (many) },
static const rg_onnx_field fields[] = { RG_ONNX_FIELD_LIST(FIELD_ROW) };

#define MESSAGE_ROW(name) #name,
static const char *const messages[] = { RG_ONNX_MESSAGE_LIST(MESSAGE_ROW) };

/* How the values of a type are read. */
enum { SAME, WIDE, NONE };

#define TYPE_ROW(called, number, width, as, how) \
  [number] = { .name = #called, .bits = (width), .dtype = (as), .wide = (how) == WIDE },
static const rg_onnx_type types[] = { RG_ONNX_TYPE_LIST(TYPE_ROW) };

const rg_onnx_field *rg_onnx_field_of(int32_t field)
{
  return field >= 0 && field < RG_ONNX_FIELD_COUNT ? &fields[field] : NULL;
}

const char *rg_onnx_message_name(int32_t message)
{
  return message >= 0 && message < RG_ONNX_MESSAGE_COUNT ? messages[message] : "?";
}

const rg_onnx_type *rg_onnx_type_of(int32_t number)
{
  if (number < 1 || number >= (int32_t)(sizeof(types) / sizeof(types[0]))) {
    return NULL;
  }
  return types[number].name != NULL ? &types[number] : NULL;
}

/* By message and number: a field, counted from 1. */
enum { MOST_NUMBER = 32 };
#define INDEX_ROW(in, called, no, ...) [RG_ONNX_##in][no] = RG_ONNX_##in##_##called + 1,
static const uint8_t index_of[RG_ONNX_MESSAGE_COUNT][MOST_NUMBER] = { RG_ONNX_FIELD_LIST(
    INDEX_ROW) };
_Static_assert(RG_ONNX_FIELD_COUNT < UINT8_MAX, "index_of holds fields as bytes");

int32_t rg_onnx_find(int32_t message, int32_t number)
{
  if (message < 0 || message >= RG_ONNX_MESSAGE_COUNT || number < 0 || number >= MOST_NUMBER) {
    return -1;
  }
  return index_of[message][number] - 1;
}

int32_t rg_onnx_wire(int32_t kind)
{
  switch (kind) {
  case RG_ONNX_INT:
    return WIRE_VARINT;
  case RG_ONNX_FLOAT:
    return WIRE_4;
  case RG_ONNX_DOUBLE:
    return WIRE_8;
  default:
    return WIRE_BYTES;
  }
}
