-- SPDX-License-Identifier: MIT
--- A table of what bench.lua and torch_bench.py timed, in the same call on the same GPU: a row for
--- each of ridge's cases, microseconds a call.
--
--     ./ridge scripts/gpu/compare.lua BENCH.jsonl TORCH.jsonl
--
-- `ratio` is ridge's time over the least of PyTorch's: below 1 ridge is faster. `of copy` is the
-- bandwidth of the case over that of the faster of both copies, where a case counts bytes. Forms of
-- sketched layers that PyTorch has not (bits, seed) stand beside the one it has. At the end: how
-- many of the cases ridge is faster in, and the mean ratio of the sketched grid, geometric.

local ridge = require 'ridge'

local _, files = ridge.args { rest = 'BENCH.jsonl TORCH.jsonl' }
if #files ~= 2 then error('two files: what bench.lua printed, what torch_bench.py printed', 0) end

-- Cases by name, and their names in order; lines that are no cases are left out.
local function read(path)
  local file, why = io.open(path)
  if not file then error(why, 0) end
  local by, names = {}, {}
  for line in file:lines() do
    local name = line:match '^{"case": "([^"]*)"'
    if name then
      if not by[name] then names[#names + 1] = name end
      by[name] = { us = tonumber(line:match '"us": ([%d.e+-]+)'),
        gb_s = tonumber(line:match '"gb_s": ([%d.e+-]+)'), error = line:match '"error": "(.*)"}$' }
    end
  end
  file:close()
  return by, names
end

local ours, names = read(files[1])
local theirs = read(files[2])

-- The least time of some of PyTorch's lines; else why there is none.
local function least(...)
  local us, why
  for _, name in ipairs { ... } do
    local row = theirs[name]
    if row and row.us then us = math.min(us or row.us, row.us) end
    why = why or row and row.error
  end
  return us, why
end

local function shown(us, why)
  if us then return ('%.1f'):format(us) end
  return why and 'failed' or ''
end

local copy
for _, row in ipairs { ours.copy or {}, theirs.copy or {}, theirs.copy_graph or {} } do
  if row.gb_s then copy = math.max(copy or 0, row.gb_s) end
end

local lines, reasons, met, faster, sum, points = {}, {}, 0, 0, 0, 0
for _, name in ipairs(names) do
  local row, peer = ours[name], name:gsub('_bits_', '_'):gsub('_seed_', '_')
  local eager, graph = least(peer), least(peer .. '_graph')
  local compiled, why = least(peer .. '_compiled', peer .. '_compiled_graph')
  local best = least(peer, peer .. '_graph', peer .. '_compiled', peer .. '_compiled_graph')
  local ratio = row.us and best and row.us / best
  if ratio then
    met, faster = met + 1, faster + (ratio < 1 and 1 or 0)
    if name:find '^sketched_%d+_%d+_b?f%d+$' then
      sum, points = sum + math.log(ratio), points + 1
    end
  end
  for _, kind in ipairs { '', '_graph', '_compiled', '_compiled_graph' } do
    local failed = theirs[peer .. kind]
    if failed and failed.error and peer == name then
      reasons[#reasons + 1] = ('%s%s: %s'):format(peer, kind, failed.error)
    end
  end
  if row.error then reasons[#reasons + 1] = ('ridge %s: %s'):format(name, row.error) end
  lines[#lines + 1] = ('| %s | %s | %s | %s | %s | %s | %s |'):format(name,
    shown(row.us, row.error), shown(eager, theirs[peer] and theirs[peer].error),
    shown(graph, theirs[peer .. '_graph'] and theirs[peer .. '_graph'].error),
    shown(compiled, why), ratio and ('%.2f'):format(ratio) or '',
    copy and row.gb_s and ('%.0f %%'):format(100 * row.gb_s / copy) or '')
end

print '| case | ridge us | torch eager | torch graph | torch compiled | ratio | of copy |'
print '|---|---|---|---|---|---|---|'
print(table.concat(lines, '\n'))
print(('\n- ridge is faster in %d of %d cases; ratio: its time over the least of theirs'):format(
  faster, met))
if copy then print(('- of copy: %.0f GB/s, read and written'):format(copy)) end
if points > 0 then
  print(('- sketched layers whose signs are stored: %d points, mean ratio %.2f'):format(points,
    math.exp(sum / points)))
end
for _, reason in ipairs(reasons) do print('- ' .. (reason:gsub('|', '/'))) end
