-- SPDX-License-Identifier: MIT
--- Advice as text: what applies first, each with its numbers, and what to try.

local columns = require 'ridge.show.columns'
local plain = require 'ridge.plain'

local M = {}

local WORDS = { applies = 'applies', no = 'does not apply', unknown = 'could not be told' }
local HEADS = {
  { 'applies', 'What applies, in the order to begin with:' },
  { 'unknown', 'What could not be told:' },
  { 'no', 'What does not apply:' },
}

local TITLES = { compile = 'plan (compilation)', compile_fails = 'a plan that fails',
  loading = 'data loading', loading_memory = 'memory of the data', waiting = 'waiting for devices',
  sizes = 'sizes for the hardware', device_graph = 'CUDA graphs', memory = 'memory of a step',
  splitting = 'batches by memory', cache = 'cached memory', system_memory = 'memory of the system',
  watched = 'memory that is watched', noise = 'noisy gradients', loss_scale = 'scale of the loss',
  schedule = 'schedule of the rate', available = 'a GPU that is not used',
  quantize = 'quantization', quantized_accuracy = 'accuracy of what is quantized',
  result_cache = 'cache of results', fusion = 'fused operations', hardware = 'hardware features',
  bottlenecks = 'bottleneck' }

local function title(name) return TITLES[name] or (name:gsub('_', ' ')) end

local function block(found)
  local lines = { ('  %s: %s'):format(title(found.name), plain.line(found.why)) }
  if found.measured then lines[2] = '    measured: ' .. plain.line(found.measured) end
  for _, try in ipairs(found.try) do
    lines[#lines + 1] = ('    try %s'):format(try.what)
    lines[#lines + 1] = ('      measured by %s'):format(try.measure)
  end
  lines[#lines + 1] = ('    (%s)'):format(found.lines)
  return table.concat(lines, '\n')
end

local function head(a)
  local n = a.counts
  local of = a.net and (' of %s'):format(plain.line(a.net)) or ''
  local text = ('%s%s on %s%s: of %d lines %d apply, %d do not, %d could not be told'):format(
    a.what, of, a.device, a.rows and (', %s'):format(plain.count(a.rows, 'row')) or '', #a.lines,
    n.applies, n.no, n.unknown)
  if a.others and a.others > 0 then
    text = ('%s (the largest of %d nets that ran)'):format(text, a.others + 1)
  end
  return a.raised and ('%s\nit raised: %s'):format(text, plain.line(a.raised)) or text
end

--- All of it.
---@param a table advice
---@return string
function M.text(a)
  local parts = { head(a) }
  for _, group in ipairs(HEADS) do
    local blocks = {}
    for _, found in ipairs(a.findings) do
      if found.state == group[1] then blocks[#blocks + 1] = block(found) end
    end
    if #blocks > 0 then
      parts[#parts + 1] = group[2]
      for _, text in ipairs(blocks) do parts[#parts + 1] = text end
    end
  end
  return table.concat(parts, '\n')
end

--- A row for each line of the documents.
---@param lines table list
---@return string
function M.lines(lines)
  local rows = {}
  for i, line in ipairs(lines) do
    rows[i] = { ('%s %d'):format(line.source, line.number), WORDS[line.state],
      title(line.finding.name), line.text }
  end
  return columns.text({ 'line', 'here', 'finding', 'what it says' }, rows)
end

return M
