/* SPDX-License-Identifier: MIT */
/*
** The element types of the safetensors format, and names as messages have them.
*/
#include <string.h>

#include "io/safetensors.h"

/* clang-format off */
static const struct {
  const char *name;
  int32_t dtype;
  int32_t bits; /* of an element */
} types[] = {
  { "F32", RG_F32, 32 },         { "F64", RG_F64, 64 },
  { "F16", RG_F16, 16 },         { "BF16", RG_BF16, 16 },
  { "I64", RG_I64, 64 },         { "I32", RG_I32, 32 },
  { "I8", RG_I8, 8 },            { "U8", RG_U8, 8 },
  { "BOOL", RG_BOOL, 8 },        { "F8_E4M3", RG_F8E4M3, 8 },
  { "F8_E5M2", RG_F8E5M2, 8 },
  /* those that ridge lacks */
  { "I16", RG_DTYPE_COUNT, 16 }, { "U16", RG_DTYPE_COUNT, 16 },
  { "U32", RG_DTYPE_COUNT, 32 }, { "U64", RG_DTYPE_COUNT, 64 },
  { "C64", RG_DTYPE_COUNT, 64 }, { "F8_E8M0", RG_DTYPE_COUNT, 8 },
  { "F4", RG_DTYPE_COUNT, 4 },   { "F6_E2M3", RG_DTYPE_COUNT, 6 },
  { "F6_E3M2", RG_DTYPE_COUNT, 6 },
};
/* clang-format on */
enum { N_TYPES = sizeof(types) / sizeof(types[0]) };

const char *rg_safetensors_type(int32_t dtype)
{
  for (int i = 0; i < N_TYPES; i++) {
    if (types[i].dtype == dtype) {
      return types[i].name;
    }
  }
  return "?";
}

int32_t rg_safetensors_bits(rg_safetensors_entry *entry)
{
  entry->dtype = RG_DTYPE_COUNT;
  for (int i = 0; i < N_TYPES; i++) {
    if (strcmp(types[i].name, entry->type) == 0) {
      entry->dtype = types[i].dtype;
      return types[i].bits;
    }
  }
  return -1;
}

const char *rg_shown_name(rg_header_text name, char text[64])
{
  int64_t n = name.bytes;

  if (n > 60) { /* between two letters of UTF-8 */
    for (n = 57; n > 0 && ((uint8_t)name.data[n] & 0xC0) == 0x80; n--) {
    }
  }
  for (int64_t i = 0; i < n; i++) {
    char c = name.data[i];

    text[i] = (uint8_t)c < 0x20 || c == 0x7F ? '?' : c;
  }
  memcpy(text + n, n < name.bytes ? "..." : "", n < name.bytes ? 4 : 1);
  return text;
}
