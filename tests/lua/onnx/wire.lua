-- SPDX-License-Identifier: MIT
--- Protobuf's wire format by hand, for files that no writer would make.

local M = {}

--- A number, 7 bits at a time.
function M.varint(n)
  local out = {}
  while n >= 128 do
    out[#out + 1] = string.char(n % 128 + 128)
    n = math.floor(n / 128)
  end
  return table.concat(out) .. string.char(n)
end

--- A field that holds bytes.
function M.bytes(number, text)
  return M.varint(number * 8 + 2) .. M.varint(#text) .. text
end

--- A field that holds a number.
function M.int(number, n)
  return M.varint(number * 8) .. M.varint(n)
end

--- A node: operator, names of what it reads and makes.
function M.node(op, inputs, outputs)
  local out = {}
  for _, name in ipairs(inputs) do out[#out + 1] = M.bytes(1, name) end
  for _, name in ipairs(outputs) do out[#out + 1] = M.bytes(2, name) end
  return M.bytes(1, table.concat(out) .. M.bytes(4, op))
end

--- A tensor: name, sizes, number of its type, raw bytes, other fields.
function M.tensor(name, sizes, kind, raw, more)
  local out = {}
  for _, size in ipairs(sizes) do out[#out + 1] = M.int(1, size) end
  return table.concat(out) .. M.int(2, kind) .. M.bytes(8, name)
    .. (raw and M.bytes(9, raw) or '') .. (more or '')
end

--- A weight of a graph whose elements are in another file.
function M.elsewhere(name, sizes, location, offset, length)
  local function entry(key, value) return M.bytes(13, M.bytes(1, key) .. M.bytes(2, value)) end
  return M.bytes(5, M.tensor(name, sizes, 1, nil, entry('location', location)
    .. (offset and entry('offset', offset) or '') .. (length and entry('length', length) or '')
    .. M.int(14, 1)))
end

--- A value of a graph: 11 an input, 12 an output.
function M.value(number, name)
  return M.bytes(number, M.bytes(1, name))
end

--- A model of what is in its graph.
function M.model(graph, opset)
  return M.int(1, 8) .. M.bytes(7, graph) .. M.bytes(8, M.int(2, opset or 17))
end

--- Graphs in each other, so many: each an attribute of a node of the one around it.
function M.nested(depth)
  local before, length = {}, 0
  for i = 1, depth do -- from the innermost: graph in attribute in node in graph
    local head = ''
    for _, number in ipairs { 6, 5, 1 } do
      local field = M.varint(number * 8 + 2) .. M.varint(length + #head)
      head = field .. head
    end
    before[i] = head
    length = length + #head
  end
  local out = {}
  for i = depth, 1, -1 do out[#out + 1] = before[i] end
  return M.model(table.concat(out))
end

return M
