-- SPDX-License-Identifier: MIT
--- `pairs` and `next` that are not compiled, where LuaJIT compiles them wrongly.
--
-- Until April 2022 LuaJIT's x64 backend exchanged the two registers that `next` returns with a 32
-- bit instruction where a trace wanted them the other way around: the pointer to the next element
-- lost its upper half, and the loop ended in a segmentation fault (LuaJIT 5e3c45c4, "x64: Fix
-- RETHI/RETLO swap after call"). Debian 12's package is older than that. Which registers a trace
-- wants depends on addresses and chance, so any loop over `pairs` that gets hot may die, seldom.
--
-- There the global `pairs`, `next` and `table.foreach` are put through a function that the compiler
-- leaves alone: a loop over them is interpreted, as before LuaJIT could compile it. What was made
-- local before is not reached.

local jit = require 'jit'

--- What was there before, by name.
local M = { builtin = { pairs = pairs, next = next } }

--- Does this LuaJIT have the fault? It bears the number of the beta until August 2023, so that some
--- builds without it are asked as well.
---@param arch string jit.arch
---@param version string jit.version
---@return boolean
function M.affected(arch, version)
  return arch == 'x64' and version:find('beta', 1, true) ~= nil
end

-- Where there may be an error, the call is a tail call: it names the user's line, not this file.
local function guarded(next, pairs)
  local function step(t, key) return next(t, key) end
  jit.off(step)
  return step, function(...)
    local t = ...
    if type(t) ~= 'table' then return pairs(...) end
    local f, state, first = pairs(t)
    return f == next and step or f, state, first
  end
end

if M.affected(jit.arch, jit.version) then
  next, pairs = guarded(next, pairs) -- luacheck: ignore 121
  if table.foreach then jit.off(table.foreach) end
end

return M
