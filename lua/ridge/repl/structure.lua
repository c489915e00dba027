-- SPDX-License-Identifier: MIT
--- str(x) and summary(x), as R has them: what a value is made of, and what is in it.

local blame = require 'ridge.blame'
local colour = require 'ridge.show.colour'
local columns = require 'ridge.show.columns'
local inspect = require 'ridge.repl.inspect'
local options = require 'ridge.options'
local show = require 'ridge.show.summary'
local types = require 'ridge.types'
local unit = require 'ridge.show.unit'

local M = {}

local DEPTH, ITEMS, FIRST = 3, 20, 5
local FIELDS = 100 -- of the value itself
local LAYER = 26 -- columns for the name of a layer
local SAMPLE = 2 ^ 18 -- elements that quantiles are taken from; of more, evenly spaced ones

local function ridge() return require 'ridge' end

-- -- str --------------------------------------------------------------------------------------

--- The first elements of a tensor, without reading the others.
local function first_elements(x)
  local n = math.min(FIRST, x.count)
  if n == 0 then return '' end
  local ok, texts = pcall(function()
    local list = x:contiguous():view(-1):narrow(1, 1, n):to('f64'):tolist()
    for i, value in ipairs(list) do list[i] = ('%.4g'):format(value) end
    return list
  end)
  if not ok then return '' end -- being captured, for one
  return '  ' .. table.concat(texts, ' ') .. (x.count > n and ' ...' or '')
end

--- A list of numbers, words and the like, which a line can show.
local function is_flat(value)
  for i = 1, math.min(#value, ITEMS) do
    if type(rawget(value, i)) == 'table' then return false end
  end
  return #value > 0 and next(value, #value) == nil
end

local function one_line(value)
  if ridge().is_tensor(value) then
    local ok, text = pcall(function()
      return ('tensor %s  %s%s'):format(value:describe(), show.bytes(value.bytes),
        first_elements(value))
    end)
    return ok and text or 'tensor (released)'
  end
  local text = inspect.value(value, { depth = 1, items = 10, width = 200 })
  local first, more = text:match '^([^\n]*)(\n?)'
  if type(value) == 'table' and not debug.getmetatable(value) then
    local n, list = 0, #value
    for _ in next, value do n = n + 1 end
    local flat = is_flat(value)
    first = (list == n and 'list of %d' or 'table of %d'):format(n)
      .. (flat and ': ' .. first or '')
    more = flat and more or ''
  end
  return ('%s%s'):format(first, more ~= '' and ' ...' or '')
end

local function sorted_keys(value)
  local keys = {}
  for key in next, value do keys[#keys + 1] = key end
  table.sort(keys, function(a, b)
    if type(a) == type(b) and (type(a) == 'number' or type(a) == 'string') then return a < b end
    return type(a) < type(b)
  end)
  return keys
end

--- The fields of a value that have lines of their own: name and value.
local function fields_of(value)
  local list = {}
  local entry = types.of(value)
  if entry and entry.name == 'Module' then
    for _, child in ipairs(value.children or {}) do
      list[#list + 1] = { child.name, child.module }
    end
    if #list == 0 then
      for _, p in ipairs(value:parameters()) do list[#list + 1] = { p.name, p.tensor } end
    end
    return list
  end
  if entry or type(value) ~= 'table' or is_flat(value) then return list end
  for _, key in ipairs(sorted_keys(value)) do
    list[#list + 1] = { type(key) == 'string' and key or ('[%s]'):format(tostring(key)),
                        rawget(value, key) }
  end
  return list
end

local function lines_of(value, name, depth, lines, seen)
  lines[#lines + 1] = ('  '):rep(depth) .. (name and colour.paint('key', name) .. ': ' or '')
    .. one_line(value)
  if depth >= DEPTH or type(value) ~= 'table' then return end
  if seen[value] then
    lines[#lines] = lines[#lines] .. colour.paint('dim', ' (shown above)')
    return
  end
  seen[value] = true
  local fields, most = fields_of(value), depth == 0 and FIELDS or ITEMS
  for i = 1, math.min(most, #fields) do
    lines_of(fields[i][2], fields[i][1], depth + 1, lines, seen)
  end
  if #fields > most then
    lines[#lines + 1] = ('  '):rep(depth + 1)
      .. colour.paint('dim', ('... %d more'):format(#fields - most))
  end
end

--- Print what a value is made of: one line a field, nested.
---@param value any
-- >> str { name = 'x', sizes = { 1, 2 } }
function M.str(value)
  local lines, width = {}, show.columns()
  lines_of(value, nil, 0, lines, {})
  for i, line in ipairs(lines) do lines[i] = columns.cut(line, width) end
  io.stdout:write(table.concat(lines, '\n'), '\n')
end

-- -- summary of numbers -------------------------------------------------------------------------

--- Finite numbers of a tensor, evenly spaced ones of many, in order; and how many are not finite.
local function numbers_of(x)
  local flat = x:contiguous():view(-1)
  local step = math.max(1, math.ceil(x.count / SAMPLE))
  local list = flat:narrow(1, 1, math.floor((x.count - 1) / step) + 1, step):to('f64'):tolist()
  local finite, nan, inf = {}, 0, 0
  for _, v in ipairs(list) do
    if v ~= v then
      nan = nan + 1
    elseif math.abs(v) == math.huge then
      inf = inf + 1
    else
      finite[#finite + 1] = v
    end
  end
  table.sort(finite)
  return finite, nan, inf, step > 1
end

local function quantile(sorted, q)
  local at = 1 + (#sorted - 1) * q
  local low = math.floor(at)
  local high = math.min(#sorted, low + 1)
  return sorted[low] + (sorted[high] - sorted[low]) * (at - low)
end

local QUANTILES = { { 'min', 0 }, { '5 %', 0.05 }, { '25 %', 0.25 }, { 'median', 0.5 },
  { '75 %', 0.75 }, { '95 %', 0.95 }, { 'max', 1 } }

local function of_tensor(x)
  local lines = { ('tensor %s  %s'):format(x:describe(), show.bytes(x.bytes)) }
  if x.count == 0 then return lines[1] .. '\n(empty)' end
  if x.dtype == 'bool' then
    return lines[1] .. ('\ntrue %.1f %%'):format(100 * x:to('f64'):mean():item())
  end
  local sorted, nan, inf, sampled = numbers_of(x)
  if #sorted > 0 then
    local heads, cells = {}, {}
    for i, q in ipairs(QUANTILES) do
      heads[i], cells[i] = q[1], ('%.4g'):format(quantile(sorted, q[2]))
    end
    local stats = show.stats(function(i) return sorted[i + 1] end, #sorted)
    heads[#heads + 1], cells[#cells + 1] = 'mean', ('%.4g'):format(stats.mean)
    heads[#heads + 1], cells[#cells + 1] = 'std', ('%.4g'):format(stats.std)
    local right = {}
    for i = 1, #heads do right[i] = true end
    lines[#lines + 1] = columns.text(heads, { cells }, { right = right })
    if stats.min < stats.max then
      lines[#lines + 1] = ('%.4g %s %.4g'):format(stats.min, show.spark(stats.histogram), stats.max)
    end
  end
  if nan > 0 then lines[#lines + 1] = colour.paint('bad', ('%d nan'):format(nan)) end
  if inf > 0 then lines[#lines + 1] = colour.paint('bad', ('%d infinite'):format(inf)) end
  if sampled then lines[#lines + 1] = colour.paint('dim', '(of evenly spaced elements)') end
  return table.concat(lines, '\n')
end

-- -- summary of networks -------------------------------------------------------------------------

--- The modules that have no children, with their paths.
local function leaves_of(module, path, list)
  if #module.children == 0 then
    list[#list + 1] = { path = path, module = module }
    return list
  end
  for _, child in ipairs(module.children) do
    leaves_of(child.module, path == '' and child.name or path .. '.' .. child.name, list)
  end
  return list
end

--- Run the network once: what each leaf gives out, and when it ran.
local function run_once(module, leaves, x)
  local C = require 'ridge.ffi.lib'
  for _, leaf in ipairs(leaves) do
    local forward = leaf.module.forward
    rawset(leaf.module, 'forward', function(self, ...)
      local began = tonumber(C.rg_clock_ns())
      local y = forward(self, ...)
      leaf.spans = leaf.spans or {}
      table.insert(leaf.spans, { began, tonumber(C.rg_clock_ns()) })
      leaf.shape = ridge().is_tensor(y) and y:describe() or type(y)
      return y
    end)
  end
  local profile = require 'ridge.profile'
  local ok, err = pcall(profile.trace, function() return module(x) end)
  for _, leaf in ipairs(leaves) do rawset(leaf.module, 'forward', nil) end
  if not ok then error(err, 0) end
  local total = 0
  for event in profile.events() do
    total = total + event.flops
    for _, leaf in ipairs(leaves) do
      for _, span in ipairs(leaf.spans or {}) do
        if event.begin_ns >= span[1] and event.end_ns <= span[2] then
          leaf.flops = (leaf.flops or 0) + event.flops
        end
      end
    end
  end
  return total
end

local NETWORK = { input = { 'table|cdata', doc = 'a tensor, or the sizes of one: {4, 784}' } }

local function of_module(module, opts)
  local leaves = leaves_of(module, '', {})
  local x, total = opts.input, nil
  if x then
    if not ridge().is_tensor(x) then x = ridge().zeros(x) end
    total = run_once(module, leaves, x)
  end
  local rows = {}
  for i, leaf in ipairs(leaves) do
    local trained = leaf.module:num_parameters()
    rows[i] = { leaf.path, columns.cut(tostring(leaf.module):match '^[^\n]*', LAYER),
      leaf.shape or '',
      unit.grouped(trained), show.bytes(leaf.module:num_bytes()),
      leaf.flops and unit.format('count', leaf.flops) or '' }
  end
  local heads = { '', 'layer', 'output', 'parameters', 'bytes', 'FLOP' }
  local trained, stored = module:num_parameters()
  local text = columns.text(heads, rows, { right = { [4] = true, [5] = true, [6] = true } })
  text = text .. ('\n%s trained, %s stored in %s'):format(trained == 1 and '1 parameter is'
    or unit.grouped(trained) .. ' parameters are', unit.grouped(stored),
    show.bytes(module:num_bytes()))
  if total then
    return text .. (', %s FLOP for %s'):format(unit.format('count', total), x:describe())
  end
  return text .. colour.paint('dim', '\n(summary(net, {input = {4, 784}}) shows outputs and FLOP)')
end

--- Print what is in a value: quantiles and a histogram of a tensor or a list of numbers, the layers
--- of a network, else its structure.
---@param value any
---@param opts table|nil of a network: input, a tensor or the sizes of one
-- >> summary(ridge.randn(100))
function M.summary(value, opts)
  opts = options.check(NETWORK, opts, 'summary')
  local entry = types.of(value)
  local text
  if entry and entry.name == 'Tensor' then
    text = of_tensor(value)
  elseif entry and entry.name == 'Module' then
    text = of_module(value, opts)
  elseif type(value) == 'table' and #value > 0 and type(value[1]) == 'number' then
    text = of_tensor(ridge().tensor(value, { dtype = 'f64' }))
  elseif value == nil then
    blame.raise 'summary: a value is expected, got nil'
  else
    return M.str(value)
  end
  io.stdout:write(text, '\n')
end

return M
