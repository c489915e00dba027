-- SPDX-License-Identifier: MIT
-- lint: luacheck, cppcheck and clang-tidy.  The compiler's own warnings are `make strict`.

package.path = "scripts/check/?.lua;" .. package.path
local Tree = require "tree"
local tree = Tree.open(arg[1])

local FLAGS = "-std=c11 -D_GNU_SOURCE -fopenmp -Icore -I. -Ibuild -I/usr/include/luajit-2.1 " ..
  "-DRG_SIMD=base -DRG_FLAGS=__FILE__"
-- The analyzer follows a function through 225000 states unless it is told otherwise.  The few that
-- run into that limit, mostly loops that call much, took most of its time.
local STATES = " -Xclang -analyzer-config -Xclang max-nodes=50000"
local AT = "cd " .. Tree.quote(tree.root) .. " && "
local HERE = Tree.run(AT .. "pwd")[1]:gsub("%p", "%%%0")
local TWO_AT_ONCE = "xargs -0 -r -n 4 -P 2 "

-- Run a tool over files; what it prints (only lines that match, if a pattern is given) fails.
local function lint(tool, files, pattern)
  if #files == 0 then return end
  local list = {}
  for i, path in ipairs(files) do list[i] = Tree.quote(path) end
  local lines, ok = Tree.run(AT .. "printf '%s\\0' " .. table.concat(list, " ") .. " | " ..
    TWO_AT_ONCE .. tool .. " 2>&1")
  local found = 0
  for _, line in ipairs(lines) do
    local path, number, text = line:match("^%s*([^%s:]+):(%d+):[%d:]*%s*(.*)$")
    if path and (not pattern or text:find(pattern)) then
      tree:fail(path:gsub("^" .. HERE .. "/", ""), tonumber(number), "%s", text)
      found = found + 1
    end
  end
  if not ok and found == 0 then
    tree:fail(tool:match("^%S+"), 1, "failed: %s", table.concat(lines, " "))
  end
end

local MPI = Tree.run("pkg-config --cflags-only-I ompi-c 2>/dev/null")[1]
if MPI then FLAGS = FLAGS .. " " .. MPI:gsub("%-I", "-isystem ") end
local sources = tree:matching("^core/.*%.c$", "^gpu/.*%.c$", "^lua/.*%.c$")
for i = #sources, 1, -1 do -- of a library that is built where Open MPI is
  if not MPI and sources[i] == "core/dist/mpi.c" then table.remove(sources, i) end
end
local plain = {} -- cppcheck knows no vector types, and takes minutes to say so
for _, path in ipairs(sources) do
  if not path:find("^core/cpu/simd/") then plain[#plain + 1] = path end
end
lint("luacheck -q --no-color --no-max-line-length --formatter plain", tree:matching("%.lua$"))
-- cppcheck reads a file once for each macro that an #if asks for. What LuaJIT reads of the headers
-- and what nvcc makes of them is not these files, and __GNUC__ decides over attributes alone: those
-- three took two thirds of its time. (One more, __x86_64__, is read both ways.)
lint("cppcheck --quiet --enable=warning,performance,portability" ..
  " --suppress=invalidPointerCast --inline-suppr --std=c11 -Icore -I." ..
  " -URG_CDEF -U__CUDACC__ -U__GNUC__" ..
  " -Ibuild --error-exitcode=1 --template='{file}:{line}:1: {message} ({id})'", plain)
lint("sh -c 'clang-tidy --quiet \"$@\" -- " .. FLAGS .. STATES .. "' clang-tidy", sources, "error")

tree:finish()
