-- SPDX-License-Identifier: MIT
--- What a worker process was started for: its orders, in an environment variable.
--
-- A worker is this same program with the same arguments. It runs the recipe again as far as the
-- sweep that it was started for, works there, and ends; what comes after `sw:run` is its parent's.

local canonical = require 'ridge.store.canonical'
local clock = require 'ridge.store.clock'
local child = require 'ridge.sweep.child'

local M = {}

local NAME = 'RIDGE_WORKER'
local cached

local function hex(bytes)
  return (bytes:gsub('.', function(c) return ('%02x'):format(c:byte()) end))
end

local function bytes(text)
  return (text:gsub('..', function(pair) return string.char(tonumber(pair, 16)) end))
end

--- The environment of a worker.
---@param given table sweep (uuid), db (path), one (stop after one point), deadline (seconds on the
---  clock that nobody sets), shard, memory (bytes), shared, choices (the number of the last row of
---  measured paths that counts)
---@return table variables
function M.encode(given)
  local order = { parent = clock.pid() }
  for key, value in pairs(given) do order[key] = value end
  order.sweep = hex(given.sweep)
  return { [NAME] = canonical.encode(order) }
end

--- The orders of this process; nil when it is nobody's worker.
---@return table|nil order what `encode` took, and `parent` (process)
function M.own()
  local text = os.getenv(NAME)
  if not text or text == '' then return nil end
  if not cached then
    cached = canonical.decode(text)
    cached.sweep = bytes(cached.sweep)
    child.follow(cached.parent)
    if cached.memory then child.limit_memory(cached.memory) end
  end
  return cached
end

return M
