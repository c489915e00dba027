/* SPDX-License-Identifier: MIT */
/*
** The Lua sources inside the program: a searcher for `require`, and access to their text.
**
** Sources are embedded as text, not as bytecode: text loads with any build of LuaJIT, parsing all
** of it takes a few milliseconds, tracebacks show real lines, and `?name` reads the docstrings out
** of it.  With RIDGE_LUA=/path/to/lua the files there win, under their real paths.
*/
#include "host.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ridge/tensor.h"

/* -- The text --------------------------------------------------------------- */

static const rg_embedded *find(const char *path)
{
  for (const rg_embedded *file = rg_embedded_files; file->path; file++) {
    if (strcmp(file->path, path) == 0) return file;
  }
  return NULL;
}

/* host.source(path): the text of an embedded file, or nil. */
static int host_source(lua_State *L)
{
  const rg_embedded *file = find(luaL_checkstring(L, 1));
  luaL_Buffer text;

  if (!file) return 0;
  luaL_buffinit(L, &text);
  for (const char *const *piece = file->pieces; *piece; piece++)
    luaL_addstring(&text, *piece);
  luaL_pushresult(&text);
  return 1;
}

/* host.files(): the paths of all embedded files, sorted. */
static int host_files(lua_State *L)
{
  int n = 0;

  lua_newtable(L);
  for (const rg_embedded *file = rg_embedded_files; file->path; file++) {
    lua_pushstring(L, file->path);
    lua_rawseti(L, -2, ++n);
  }
  return 1;
}

/* -- The searcher ------------------------------------------------------------ */

/* lua_load's reader: one piece a call. */
static const char *next_piece(lua_State *L, void *data, size_t *size)
{
  const char *const **piece = data;
  const char *text = **piece;

  (void)L;
  if (!text) return NULL;
  (*piece)++;
  *size = strlen(text);
  return text;
}

static int load_embedded(lua_State *L, const rg_embedded *file)
{
  const char *const *piece = file->pieces;
  char name[300];

  snprintf(name, sizeof name, "@%s", file->path);
  return lua_load(L, next_piece, &piece, name);
}

static int load_file(lua_State *L, const char *path)
{
  if (access(path, R_OK) != 0) return -1;
  return luaL_loadfile(L, path);
}

/* package.loaders' entry: only names that are ridge's; the error text otherwise. */
static int search(lua_State *L)
{
  const char *module = luaL_checkstring(L, 1);
  const char *folder = getenv("RIDGE_LUA");
  char base[200], path[240], file[4096];
  size_t n = strlen(module);

  if (strcmp(module, "ridge") != 0 && strncmp(module, "ridge.", 6) != 0) return 0;
  if (n >= sizeof base) return luaL_error(L, "module name too long: %s", module);
  for (size_t i = 0; i <= n; i++)
    base[i] = module[i] == '.' ? '/' : module[i];

  /* a.lua and a/init.lua, first under RIDGE_LUA, then embedded */
  for (int i = 0; i < 4; i++) {
    int status = -1;

    snprintf(path, sizeof path, i % 2 ? "%s/init.lua" : "%s.lua", base);
    if (i < 2) {
      if (!folder || !*folder) continue;
      const int size = snprintf(file, sizeof file, "%s/%s", folder, path);
      if (size < 0 || (size_t)size >= sizeof file) continue;
      status = load_file(L, file);
    } else {
      const rg_embedded *found = find(path);
      if (found) status = load_embedded(L, found);
    }
    if (status == 0) return 1;
    if (status > 0) return lua_error(L);
  }
  lua_pushfstring(L, "\n\tno module '%s' embedded in ridge", module);
  return 1;
}

/* Put the searcher right behind package.preload, before the folders of package.path. */
static void add_searcher(lua_State *L)
{
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "loaders");
  for (int i = (int)lua_objlen(L, -1); i >= 2; i--) {
    lua_rawgeti(L, -1, i);
    lua_rawseti(L, -2, i + 1);
  }
  lua_pushcfunction(L, search);
  lua_rawseti(L, -2, 2);
  lua_pop(L, 2);
}

/* host.stopping() where nobody handles Ctrl-C: never.  interrupt.c replaces it in the program. */
static int host_never(lua_State *L)
{
  lua_pushboolean(L, 0);
  return 1;
}

void rg_host_embed(lua_State *L, int executable, const char *library)
{
  add_searcher(L);
  lua_newtable(L);
  lua_pushboolean(L, executable);
  lua_setfield(L, -2, "executable");
  if (library) {
    lua_pushstring(L, library);
    lua_setfield(L, -2, "library");
  }
  lua_pushstring(L, rg_version());
  lua_setfield(L, -2, "version");
  lua_pushcfunction(L, host_source);
  lua_setfield(L, -2, "source");
  lua_pushcfunction(L, host_files);
  lua_setfield(L, -2, "files");
  lua_pushcfunction(L, host_never);
  lua_setfield(L, -2, "stopping");
  lua_pushcfunction(L, host_never);
  lua_setfield(L, -2, "interrupted");
  lua_newtable(L);
  lua_setfield(L, -2, "settings");

  lua_getfield(L, LUA_REGISTRYINDEX, "_LOADED");
  lua_pushvalue(L, -2);
  lua_setfield(L, -2, "ridge.host");
  lua_pop(L, 1);
}

/* -- The module for plain luajit ---------------------------------------------- */

RG_API int luaopen_ridge(lua_State *L);

/* `require "ridge"` finds ridge.so on package.cpath: give it the sources and run ridge/init.lua. */
int luaopen_ridge(lua_State *L)
{
  Dl_info self;
  const char *library = NULL;

  if (dladdr((const void *)rg_embedded_files, &self)) library = self.dli_fname;
  rg_host_embed(L, 0, library);
  rg_host_terminal(L);
  lua_pop(L, 1);

  lua_pushcfunction(L, search);
  lua_pushliteral(L, "ridge");
  lua_call(L, 1, 1);
  if (!lua_isfunction(L, -1)) return luaL_error(L, "%s", lua_tostring(L, -1));
  lua_pushliteral(L, "ridge");
  lua_call(L, 1, 1);
  return 1;
}
