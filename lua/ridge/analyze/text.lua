-- SPDX-License-Identifier: MIT
--- An analysis as text: a table of what layers hold and compute, and one of their times.

local columns = require 'ridge.show.columns'
local options = require 'ridge.options'
local plain = require 'ridge.plain'
local unit = require 'ridge.show.unit'

local M = {}

local TEXT = {
  rows = { 'integer', default = 40, min = 1, max = 2 ^ 31, doc = 'layers at most' },
  depth = { 'integer', min = 1, max = 2 ^ 31, doc = 'those below so many names of a path are one' },
}

local function percent(share) return ('%.1f %%'):format(100 * share) end
local function flop(n) return n > 0 and unit.format('count', n) or '' end
local function bytes(n) return n > 0 and unit.format('bytes', n) or '' end
local function time(ms) return ms and ms > 0 and unit.format('ms', ms) or '' end

-- Of all operations of a layer, forward and back.
local function rate(layer)
  local flops, ms = layer.flops + layer.other_flops, layer.ms
  if layer.backward_ms > 0 then
    flops = flops + layer.backward_flops + layer.backward_other_flops
    ms = ms + layer.backward_ms
  end
  return flops > 0 and unit.format('gflops', flops / ms / 1e6) or ''
end

-- -- Layers that are one -------------------------------------------------------------------------

local SUMS = { 'params', 'bytes', 'flops', 'other_flops', 'backward_flops', 'backward_other_flops',
  'saved_bytes', 'ms', 'backward_ms', 'share', 'roof_ms', 'backward_roof_ms' }

local function head_of(name, depth)
  local at = 0
  for _ = 1, depth do
    at = name:find('.', at + 1, true)
    if not at then return name end
  end
  return name:sub(1, at - 1)
end

-- Names of the net's class have dots, and are no paths.
local function grouped(a, depth)
  local list, by = {}, {}
  for i, layer in ipairs(a.layers) do
    local head = i == 1 and layer.name or head_of(layer.name, depth)
    local sum = by[head]
    if not sum then
      sum = { name = head, class = layer.class, calls = layer.calls, part = layer.part, n = 0 }
      by[head], list[#list + 1] = sum, sum
    end
    sum.n = sum.n + 1
    for _, field in ipairs(SUMS) do
      if layer[field] then sum[field] = (sum[field] or 0) + layer[field] end
    end
  end
  return list
end

-- A container whose own forward does nothing is no line.
local function is_worth(layer)
  return layer.params > 0 or layer.bytes > 0 or layer.flops + layer.other_flops > 0
    or layer.saved_bytes > 0
end

local function more(n)
  return n > 0 and ('\n(and %s more)'):format(plain.count(n, 'layer')) or ''
end

-- -- Tables --------------------------------------------------------------------------------------

-- Cells of one layer; the class stands last, where a narrow terminal cuts it.
local function cells(l, class, with)
  local row, n = { l.name }, 1
  local function put(cell)
    n = n + 1
    row[n] = cell
  end
  if with.calls then put(class and tostring(l.calls) or '') end
  put((l.params > 0 or not class) and ('%d'):format(l.params) or '')
  put(bytes(l.bytes))
  put(flop(l.flops))
  put(flop(l.other_flops))
  if with.backward then
    put(flop(l.backward_flops))
    put(bytes(l.saved_bytes))
  end
  put(class or '')
  return row
end

local function counts(a, list, most)
  local rows, shown, with = {}, {}, { backward = a.backward }
  for _, layer in ipairs(list) do
    if is_worth(layer) then
      shown[#shown + 1] = layer
      with.calls = with.calls or layer.calls ~= 1
    end
  end
  for i = 1, math.min(most, #shown) do
    rows[i] = cells(shown[i], (shown[i].class:gsub('^nn%.', '')), with)
  end
  rows[#rows + 1] = cells({ name = 'total', params = a.params, bytes = a.bytes, flops = a.flops,
    other_flops = a.other_flops, backward_flops = a.backward_flops,
    saved_bytes = a.saved_bytes + a.outside.saved_bytes }, nil, with)
  local heads, right = { 'layer' }, {}
  if with.calls then heads[#heads + 1] = 'calls' end
  for _, head in ipairs { 'params', 'memory', 'FLOP', 'other' } do heads[#heads + 1] = head end
  if a.backward then heads[#heads + 1], heads[#heads + 2] = 'backward', 'saved' end
  for k = 2, #heads do right[k] = true end
  heads[#heads + 1] = 'class'
  return columns.text(heads, rows, { right = right }) .. more(#shown - most)
end

local function roof_text(layer)
  local ms, least = layer.ms + layer.backward_ms, layer.roof_ms
  if not least or ms == 0 then return '' end
  return ('%s %s'):format(percent((least + (layer.backward_roof_ms or 0)) / ms), layer.roof or '')
end

local function times(a, list, most)
  local rows, shown, roof = {}, {}, false
  for _, layer in ipairs(list) do
    if layer.ms + layer.backward_ms > 0 then shown[#shown + 1] = layer end
    roof = roof or layer.roof_ms ~= nil
  end
  table.sort(shown, function(x, y)
    local p, q = x.ms + x.backward_ms, y.ms + y.backward_ms
    if p ~= q then return p > q end
    return x.name < y.name
  end)
  local function row_of(name, ms, back, share, ...)
    local row = { name, time(ms), time(back), percent(share), ... }
    if not a.backward then table.remove(row, 3) end
    return row
  end
  for i = 1, math.min(most, #shown) do
    local l = shown[i]
    rows[i] = row_of(l.name, l.ms, l.backward_ms, l.share, rate(l), roof and roof_text(l) or nil)
  end
  local out = a.outside
  rows[#rows + 1] = row_of('outside', out.ms, out.backward_ms,
    a.watched_ms > 0 and (out.ms + out.backward_ms) / a.watched_ms or 0)
  rows[#rows + 1] = row_of('total', a.layers_forward_ms + out.ms,
    a.layers_ms - a.layers_forward_ms + out.backward_ms, 1)
  local heads = a.backward and { 'layer', 'forward', 'backward', 'share', 'rate', 'of roof' }
    or { 'layer', 'forward', 'share', 'rate', 'of roof' }
  if not roof then heads[#heads] = nil end
  return columns.text(heads, rows, { right = { [2] = true, [3] = true, [4] = true, [5] = true,
    [6] = true } }) .. more(#shown - most)
end

-- -- All of it -----------------------------------------------------------------------------------

local function head(a)
  local of = a.batch and ('batch %d, '):format(a.batch) or ''
  local buffers = 0
  for _, layer in ipairs(a.layers) do buffers = buffers + layer.buffers end
  local beside = buffers > 0 and (' and %s in buffers'):format(unit.grouped(buffers)) or ''
  return ('%s, %s%s on %s: %s parameters%s, %s'):format(plain.line(a.class), of, a.dtype, a.device,
    unit.grouped(a.params), beside, unit.format('bytes', a.bytes))
end

-- '40 MFLOP', '64 FLOP'
local function flops(n)
  local text = unit.format('count', n)
  return text .. (text:find '%a$' and 'FLOP' or ' FLOP')
end

local function counted(a)
  return ('forward %s: 2 for each of %s multiply-adds of products; %s of other kinds beside')
    :format(flops(a.flops), unit.format('count', a.multiply_adds), flops(a.other_flops))
end

local function timed(a)
  if not a.step_ms then return 'not timed (rounds = 0)' end
  return ('layers %s and outside %s make %s; a step that nobody looks on at takes %s (means '
    .. 'of the faster half of %s)'):format(unit.format('ms', a.layers_ms),
    unit.format('ms', a.outside.ms + a.outside.backward_ms), unit.format('ms', a.watched_ms),
    unit.format('ms', a.step_ms), plain.count(a.rounds, 'round'))
end

--- An analysis as text.
---@param a table
---@param opts table|nil {rows = 40, depth =}
---@return string
function M.text(a, opts)
  opts = options.check(TEXT, opts, 'analysis:text')
  local list = opts.depth and grouped(a, opts.depth) or a.layers
  local parts = { head(a), counted(a), '', counts(a, list, opts.rows) }
  if a.step_ms then
    parts[#parts + 1] = ''
    parts[#parts + 1] = times(a, list, opts.rows)
  end
  parts[#parts + 1] = ''
  parts[#parts + 1] = timed(a)
  for _, note in ipairs(a.notes) do parts[#parts + 1] = plain.line(note) end
  return table.concat(parts, '\n')
end

--- Bottlenecks as lines.
---@param list table
---@return string
function M.bottlenecks(list)
  local rows = {}
  for i, b in ipairs(list) do
    rows[i] = { b.name, (b.class:gsub('^nn%.', '')), time(b.ms), percent(b.share),
      b.over and ('over %s'):format(percent(list.limit)) or '',
      b.roof and ('%s of the roof (%s)'):format(percent(b.roof_share), b.roof) or '' }
  end
  if #rows == 0 then return ('no layer takes over %s'):format(percent(list.limit)) end
  return columns.text({ 'layer', 'class', 'time', 'share', '', '' }, rows,
    { right = { [3] = true, [4] = true } })
end

return M
