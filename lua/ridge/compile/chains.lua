-- SPDX-License-Identifier: MIT
--- An alternative of single nodes: the links of a fused chain as calls one after the other.

local alternative = require 'ridge.compile.alternative'

local metas = alternative.metas

local function text_of(link)
  return ('%s.%s %s %s %s%s%s>%s'):format(link.op, link.dtype, link.load or '-', link.with or '-',
    link.number and ('%.17g'):format(link.number) or '-', link.reversed and ' reversed' or '',
    link.act and ' ' .. link.act or '', link.store or '-')
end

-- Is a link the copy of a tensor in its own type?  The type of what it reads is its predecessor's,
-- or that of what it loads: an input, or a result of the chain.
local function is_copy(node, links, i)
  local link = links[i]
  local n = #node.inputs
  local from = link.load and (node.inputs[link.load] or node.outputs[link.load - n])
    or links[i - 1]
  return link.op == 'cast' and from.dtype == link.dtype
end

-- What a chain is, for who looks for others like it: nil where it cannot be taken apart.
local function kind_of(node)
  if node.op ~= 'fused' or node.recomputed then return nil end
  for _, out in ipairs(node.outputs) do
    if not out or out.was then return nil end -- it writes over something
  end
  local links, words = node.args.links, {}
  for i, link in ipairs(links) do
    if is_copy(node, links, i) then return nil end
    words[i] = text_of(link)
  end
  return ('chain %s %s'):format(metas(node.inputs), table.concat(words, '; '))
end

local function args_of(link)
  if link.op == 'cast' then return { dtype = link.dtype } end
  if link.act then return { act = link.act } end
  if link.number then
    return { scalar = 1, value = link.number, reversed = link.reversed and 1 or 0 }
  end
end

local function take_apart(graph, node)
  local inputs, stored, value = node.inputs, {}, nil
  local function from(i) return inputs[i] or stored[i - #inputs] end
  for _, link in ipairs(node.args.links) do
    local a = link.load and from(link.load) or value
    local b = link.with == 'value' and a or link.with and from(link.with) or nil
    if b and link.reversed then a, b = b, a end
    value = graph:insert(link.op, { a, b }, { before = node, args = args_of(link) }).outputs[1]
    if link.store then stored[link.store] = value end
  end
  for i, out in ipairs(node.outputs) do graph:replace(out, stored[i]) end
  graph:remove(node)
end

return alternative.of { choice = 'chain', heavy = 'bytes', kind_of = kind_of,
  take_apart = take_apart }
