-- SPDX-License-Identifier: MIT
--- Graphs for sizes that may change: ridge.graph(f, x, { sizes = { { 'N', 3, 224, 224 } } }).
--
-- The function runs at three sizes, 2, 3 and 7; never 1, which broadcasts and squeezes as no other
-- size does. Each number of the graph that is a * N + b in all three is symbolic; through two any
-- line fits. Any other number that differs is an error with its line and values. What a call costs
-- may grow with the square. A branch that only other sizes take is not seen by these runs:
-- graph:at(n, { check = true }) runs the function at that size too, and compares.

local blame = require 'ridge.blame'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local ops = require 'ridge.tensor.ops'
local random = require 'ridge.random'
local ref = require 'ridge.ffi.ref'
local trial = require 'ridge.graph_trial'

local M = {}

local MOST = 2 ^ 31 -- size that a graph may be asked for

local AT = { 2, 3, 7 }
M.AT = AT

--- May a size be this?
---@param n any
---@return boolean
function M.is_size(n) return type(n) == 'number' and n >= 1 and n == math.floor(n) and n <= MOST end

local function fail(text, ...)
  blame.raise(('graph: ' .. text):format(...), 'ESHAPE', 'graph')
end

-- -- What may change ------------------------------------------------------------------------

-- A table that a function takes is an argument; lists with names of sizes in them are none.
local function misspelled(last)
  local key, value = next(last)
  if next(last, key) ~= nil or type(value) ~= 'table' or key == 'sizes' then return end
  for _, list in pairs(value) do
    for _, size in pairs(type(list) == 'table' and not getmetatable(list) and list or {}) do
      if type(size) == 'string' and blame.near(tostring(key), { 'sizes' }) then
        fail('there is no option %s (did you mean sizes?)', blame.show(key))
      end
    end
  end
end

--- The options of a call of ridge.graph: what stands last, where that is { sizes = ... }.
---@param ... any the call's arguments
---@return table|nil sizes
---@return number n arguments before it
function M.option(...)
  local n = select('#', ...)
  local last = n > 0 and select(n, ...) or nil
  if type(last) ~= 'table' or getmetatable(last) then return nil, n end
  if type(last.sizes) ~= 'table' then
    misspelled(last)
    return nil, n
  end
  for key in pairs(last) do
    if key ~= 'sizes' then fail('there is no option %s (did you mean sizes?)', blame.show(key)) end
  end
  return last.sizes, n - 1
end

-- The name of the size, the axes of each argument that have it, and what it is in this call.
local function read(sizes, args)
  local name, value
  local axes = {}
  for key in pairs(sizes) do
    if type(key) ~= 'number' or args[key] == nil then
      fail('sizes[%s]: there is no such argument', type(key) == 'number' and key or blame.show(key))
    end
  end
  for i, x in ipairs(args) do
    axes[i] = {}
    local given = sizes[i]
    if given and not ref.is(x) then fail('sizes[%d]: argument %d is no tensor', i, i) end
    if given and type(given) ~= 'table' then
      fail('sizes[%d] is a list of sizes and names, got %s', i, blame.show(given))
    end
    if given and #given ~= x.ndim then
      fail('sizes[%d] has %d sizes, argument %d is %s', i, #given, i, blame.show(x))
    end
    for axis, size in ipairs(given or {}) do
      if type(size) == 'string' then
        if not size:find '^[%a_][%w_]*$' then
          fail('sizes[%d]: %s is no name: letters, digits and _', i, blame.show(size))
        end
        if (name or size) ~= size then
          fail('one size may change, and %s and %s are two', name, size)
        end
        if (value or x.shape[axis]) ~= x.shape[axis] then
          fail('%s is %d and %d in one call', size, value, x.shape[axis])
        end
        name, value, axes[i][axis] = size, x.shape[axis], true
      elseif size ~= x.shape[axis] then
        fail('sizes[%d]: axis %d is %s, and %d in the argument', i, axis, blame.show(size),
          x.shape[axis])
      end
    end
  end
  if not name then fail "sizes name no size that may change: { { 'N', 3, 224, 224 } }" end
  if value < 1 then fail('%s is %d, and has to be at least 1', name, value) end
  return name, axes, value
end

-- x with so many positions along some axes: its own, again and again.
local function resized(x, axes, n)
  for axis in pairs(axes) do
    local parts = {}
    for i = 1, math.ceil(n / x.shape[axis]) do parts[i] = x end
    x = (#parts > 1 and ops.concat(parts, axis) or x):narrow(axis, 1, n)
  end
  return x:contiguous()
end

-- -- From three texts one ---------------------------------------------------------------------

local NUMBER = '%-?%d[%w%.%+%-]*'

local function lines_of(text)
  local list = {}
  for line in text:gmatch '[^\n]+' do list[#list + 1] = line end
  return list
end

-- Where a line of a graph's text comes from, for errors.
local function place_of(line, nodes)
  local id = line:match '^%s*{"id": (%d+)'
  if id then
    for _, node in ipairs(nodes) do
      local made = (node:match '"out": (%b[])' or ''):gsub('%D', ' ')
      if made:find(' ' .. id .. ' ', 1, true) then
        line = node
        break
      end
    end
  end
  local op, at = line:match '"op": "([^"]*)"', line:match '"line": "([^"]*)"'
  return ('%s%s'):format(op or 'value ' .. (id or '?'), at and ' at ' .. at or '')
end

-- What a number is as a function of N; nil: no line.
local function fit(a, b, c, square)
  local u, v, w = tonumber(a), tonumber(b), tonumber(c)
  if not (u and v and w) then return nil end
  local slope = v - u
  local start = u - slope * AT[1]
  if w == slope * AT[3] + start then return { slope = slope, start = start, square = 0 } end
  if not square then return nil end
  -- through the three: Newton's differences
  local second = ((w - v) / (AT[3] - AT[2]) - slope) / (AT[3] - AT[1])
  return { square = second, slope = slope - second * (AT[1] + AT[2]),
    start = start + second * AT[1] * AT[2] }
end

-- A line of text at three sizes: texts, and functions of N between them.
local function join_line(texts, nodes, name)
  local parts, from = {}, { 1, 1, 1 }
  local line = texts[1]
  while true do
    local a, b = line:find(NUMBER, from[1])
    if not a then break end
    local c, d = texts[2]:find(NUMBER, from[2])
    local e, f = texts[3]:find(NUMBER, from[3])
    parts[#parts + 1] = line:sub(from[1], a - 1)
    local u, v, w = line:sub(a, b), texts[2]:sub(c, d), texts[3]:sub(e, f)
    if u == v and v == w then
      parts[#parts + 1] = u
    else
      local before = line:sub(1, a - 1)
      local found = fit(u, v, w, before:find '"flops": $' or before:find '"bytes": $')
      if not found then
        fail('%s has a number that is %s, %s and %s where %s is %d, %d and %d: no a * %s + b',
          place_of(line, nodes), u, v, w, name, AT[1], AT[2], AT[3], name)
      end
      parts[#parts + 1] = found
    end
    from = { b + 1, d + 1, f + 1 }
  end
  parts[#parts + 1] = line:sub(from[1])
  return parts
end

local function skeleton(line) return (line:gsub(NUMBER, '#')) end

--- Texts of a graph at the three sizes as one with functions of the size in it.
---@param texts string[] three, of as many lines
---@param name string of the size
---@return table parts texts, and functions between them
local function join(texts, name)
  local lists, parts, nodes = {}, {}, {}
  for i, text in ipairs(texts) do lists[i] = lines_of(text) end
  for _, line in ipairs(lists[1]) do
    if line:find '"op": ' then nodes[#nodes + 1] = line end
  end
  for i, line in ipairs(lists[1]) do
    local three = { line, lists[2][i] or '', lists[3][i] or '' }
    if skeleton(three[1]) ~= skeleton(three[2]) or skeleton(three[1]) ~= skeleton(three[3]) then
      fail('it computes something else where %s is %d, %d and %d: %s, %s and %s', name, AT[1],
        AT[2], AT[3], place_of(three[1], nodes), place_of(three[2], nodes),
        place_of(three[3], nodes))
    end
    for _, part in ipairs(join_line(three, nodes, name)) do parts[#parts + 1] = part end
    parts[#parts + 1] = '\n'
  end
  return parts
end

M.join = join

--- A number as a text of a graph has it.
---@param x number
---@return string
function M.number_text(x)
  return x == math.floor(x) and math.abs(x) < 2 ^ 53 and ('%d'):format(x) or ('%.17g'):format(x)
end

local number_text = M.number_text

local function text_at(parts, n)
  local list = {}
  for i, part in ipairs(parts) do
    list[i] = type(part) == 'string' and part
      or number_text((part.square * n + part.slope) * n + part.start)
  end
  return table.concat(list)
end

local function formula(part, name)
  local text = part.slope == 1 and name or ('%s*%s'):format(number_text(part.slope), name)
  if part.start == 0 then return text end
  return ('%s%s%s'):format(text, part.start > 0 and '+' or '-', number_text(math.abs(part.start)))
end

--- The text that parts are, with functions of the size in angle brackets.
---@param parts table of M.join
---@param name string of the size
---@return string
function M.text(parts, name)
  local list = {}
  for i, part in ipairs(parts) do
    list[i] = type(part) == 'string' and part or '<' .. formula(part, name) .. '>'
  end
  return table.concat(list)
end

-- -- Graphs of a size -------------------------------------------------------------------------

-- The values in the order of a graph's text: those that were there before, then those it makes.
local function in_order(graph)
  local list, made = {}, {}
  for _, value in ipairs(graph:values()) do
    local to = value.kind == 'intermediate' and made or list
    to[#to + 1] = value
  end
  local n = #list
  for i, value in ipairs(made) do list[n + i] = value end
  return list, n
end

-- Do two graphs give the same bits of the same numbers? Of both, runs leave no trace.
local function gives_the_same(made, graph, args)
  local saved, came = trial.save(graph), {}
  for i, each in ipairs { made, graph } do
    local ok, results = pcall(function()
      local list = { each:plan():run(args) }
      list.n = #list
      return trial.outcome(saved, list)
    end)
    trial.restore(saved)
    if not ok then
      blame.pass_interrupt(results)
      return false
    end
    came[i] = results
  end
  return (trial.difference(came[1], came[2]))
end

-- Is it what the function computes at this size?  It runs once more. A size of 1 leaves out views
-- and copies that other sizes need: what it gives is compared there.
local function compare(sizes, made, n)
  if not sizes.again then
    fail('at: the graph was read from a text, and has no function to compare it with')
  end
  local ok, graph = pcall(sizes.again, n)
  if not ok then
    blame.pass_interrupt(graph)
    fail('at: where %s is %d the function fails: %s', sizes.name, n,
      blame.is_error(graph) and graph.message or tostring(graph))
  end
  local same, why = made:same(graph)
  if not same and not (n == 1 and gives_the_same(made, graph, sizes.arguments(n))) then
    fail('at: where %s is %d the function computes something else than a * %s + b says: %s',
      sizes.name, n, sizes.name, why)
  end
end

--- The graph for one size.
---@param graph table that was recorded with sizes
---@param n number
---@param check boolean|nil run the function once at this size, and compare
---@return table graph
function M.at(graph, n, check)
  local sizes = graph._sizes
  if not sizes then
    local from = graph._recorded and graph._recorded._sizes
    if from then
      fail('at: this is a copy of the graph where %s is %d; g:at(n) first, then passes', from.name,
        from.value)
    end
    fail "at: no size of this graph may change: ridge.graph(f, x, { sizes = { { 'N', 3 } } })"
  end
  if not M.is_size(n) then
    fail('at: %s is a whole number from 1 to %d, got %s', sizes.name, MOST, blame.show(n))
  end
  local made = sizes.parse(text_at(sizes.parts, n))
  local old, n_outside = in_order(graph)
  for i, value in ipairs(in_order(made)) do
    local x = i <= n_outside and C.rg_graph_bound(graph._p, old[i].id) or nil
    if x ~= nil and table.concat(value.shape, ' ') == table.concat(old[i].shape, ' ') then
      call.check(C.rg_graph_bind(made._p, value.id, x), 'graph')
    end
  end
  made._made = graph._made
  if check then compare(sizes, made, n) end
  return made
end

--- Which values have a size that may change.
---@param graph table
---@return table list of { value =, shape = { 'N', 3 } }, and name
function M.shapes(graph)
  local sizes = graph._sizes
  if not sizes then return {} end
  local text, list = {}, { name = sizes.name }
  for i, part in ipairs(sizes.parts) do
    text[i] = type(part) == 'string' and part
      or part.square == 0 and formula(part, sizes.name) or '0'
  end
  local values, i = in_order(graph), 0
  for shape in table.concat(text):gmatch '{"id": %d+, [^\n]-"type": "%w+%[([^%]]*)%]"' do
    local dims = {}
    i = i + 1
    for dim in shape:gmatch '[^,]+' do dims[#dims + 1] = tonumber(dim) or dim end
    if shape:find(sizes.name, 1, true) then
      list[#list + 1] = { value = values[i], shape = dims }
    end
  end
  return list
end

-- The graph at one of the three sizes; what fails there may run at the size of the call.
local function tried(again, name, n)
  local ok, graph = pcall(again, n)
  if ok then return graph end
  blame.pass_interrupt(graph)
  if not blame.is_error(graph) then error(graph, 0) end
  fail('where %s is %d it fails, and it is recorded at %d, %d and %d: %s', name, n, AT[1], AT[2],
    AT[3], graph.message)
end

--- Record a function whose arguments have sizes that may change.
---@param record function records a call: f, ... gives a graph
---@param parse function a graph out of its text
---@param sizes table as the call has them
---@param f function
---@param ... any its arguments
---@return table graph as recorded at the arguments, with at(n)
function M.record(record, parse, sizes, f, ...)
  local args = { ... }
  local name, axes, value = read(sizes, args)
  local default, texts, n_args = random.default(), {}, select('#', ...)
  local function arguments(n)
    local list = {}
    for k = 1, n_args do
      list[k] = axes[k] and next(axes[k]) and resized(args[k], axes[k], n) or args[k]
    end
    return list
  end
  local function again(n)
    local stood = default:state()
    local graph = record(f, unpack(arguments(n), 1, n_args))
    default:load_state(stood)
    return graph
  end
  for i, n in ipairs(AT) do
    local graph = tried(again, name, n)
    if #graph:states() > 0 then
      fail 'it writes to what was there before, and sizes that may change take runs of their own'
    end
    texts[i] = graph:json()
  end
  local graph = record(f, ...)
  graph._sizes = { name = name, value = value, parts = join(texts, name), parse = parse,
    again = again, arguments = arguments }
  local same, why = true, nil
  if value > 1 then same, why = M.at(graph, value):same(graph) end
  if not same then
    fail('where %s is %d it computes something else than a * %s + b says: %s', name, value, name,
      why)
  end
  return graph
end

return M
