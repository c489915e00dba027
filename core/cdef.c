/* SPDX-License-Identifier: MIT */
/*
** The public headers as text, as LuaJIT's parser takes them: made by the preprocessor from
** core/ridge.h, so the declarations always match this binary.
*/
#include "ridge/base.h"

static const char text[] =
#include "cdef.inc"
    ;

const char *rg_cdef(void)
{
  return text;
}
