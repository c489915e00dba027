-- SPDX-License-Identifier: MIT
--- Links of a fused chain as tables, for who reads the arguments of a node.

local ffi = require 'ffi'
local dtype = require 'ridge.tensor.dtype'
local schema = require 'ridge.tensor.schema'

-- Inputs count from 1, and behind them the chain's results.
local function link_of(link)
  local with = link.with >= 0 and link.with + 1 or link.with == -3 and 'value' or nil
  return { op = link.id < 0 and 'cast' or schema.records()[link.id + 1].name,
    dtype = dtype.name(link.dtype),
    load = link.load >= 0 and link.load + 1 or nil, with = with,
    number = link.with == -2 and link.number or nil,
    store = link.store >= 0 and link.store + 1 or nil,
    reversed = link.reversed ~= 0 or nil,
    act = link.act > 0 and schema.WORDS.act[link.act] or nil }
end

--- The links that lie somewhere.
---@param at cdata pointer to an rg_links
---@return table[] links { op =, dtype =, load =, with =, number =, store =, reversed =, act = }
return function(at)
  local links, list = ffi.cast('const rg_links *', at), {}
  for i = 1, tonumber(links.n) do list[i] = link_of(links.at[i - 1]) end
  return list
end
