-- SPDX-License-Identifier: MIT
-- For LuaRocks, in the root folder of the sources:
--
--     luarocks --lua-version 5.1 make scripts/ridge-dev-1.rockspec
--
-- The module holds all of ridge's Lua, as the program does: no other file is needed to require it.

rockspec_format = '3.0'
package = 'ridge'
version = 'dev-1'
source = { url = 'git+file://.' }
description = {
  summary = 'A workbench for finding where neural networks run fast',
  detailed = [[
A tensor and neural network library in C, bound into LuaJIT, with a prompt, resumable sweeps, paired
comparisons with intervals, a database of what was measured, and figures of it. It needs LuaJIT, and
Debian's libdnnl-dev, libopenblas-openmp-dev and libedit-dev, which `scripts/deps` installs.]],
  license = 'MIT',
}
supported_platforms = { 'linux' }
dependencies = { 'lua == 5.1' } -- LuaJIT's own version of the language
build = {
  type = 'make',
  build_target = 'all',
  build_variables = { ROCK_CFLAGS = '$(CFLAGS)' }, -- not used: ours are the Makefile's
  install_target = 'install-rock',
  install_variables = { ROCK_LIB = '$(LIBDIR)', ROCK_BIN = '$(BINDIR)' },
  copy_directories = { 'docs', 'recipes' },
}
deploy = { wrap_bin_scripts = false } -- the program is none of Lua's
