-- SPDX-License-Identifier: MIT
--- `ridge onnx`: what is in an ONNX file, whether it runs, how long it takes.

local stored = require 'ridge.cli.stored'
local plain = require 'ridge.plain'

local M = {}

M.summary = 'what is in an ONNX file, whether and how fast it runs: ridge onnx show net.onnx'
M.usage = 'ridge onnx show|check|run|optimize|diff|bench FILE [FILE] [--size N=2]'

local SPEC = {
  about = [[
show      what wrote it, its inputs, outputs, weights, and its operators with counts
check     read it, load it, call it with drawn inputs and run it as a plan: do both give the same?
          Status 1 where something is wrong
run       what it makes of drawn inputs, and how long its plan takes
optimize  write what passes leave of it to -o OUT, checked and compared; status 1 where it differs
diff      two files on the same inputs: operators, and results by more than --tolerance (status 1)
bench     sweep over batch and threads; what stands behind -- are options of the recipe `onnx`

Inputs that are real numbers are normal draws, others are 0. A size that the file leaves open is 1
unless --size names it; show prints its name then, or the number that --size gives.

    ridge onnx show net.onnx
    ridge onnx run net.onnx --size N=8 --times 50
    ridge onnx optimize net.onnx -o small.onnx
    ridge onnx diff net.onnx small.onnx
    ridge onnx bench net.onnx -- --batches 1,8 --threads 1,2

How long two files take beside each other says ridge ab a.onnx b.onnx.]],
  rest = 'show|check|run|optimize|diff|bench FILE [FILE]',
  { 'size', {}, 'sizes that the file leaves open: batch=8', each = true },
  { 'seed', 0, 'of the inputs', integer = true, min = 0 },
  { 'o', '', 'where optimize writes', writes = 'file', short = 'o' },
  { 'opset', 17, 'version of the operators that optimize writes', integer = true, min = 13,
    max = 21 },
  { 'tolerance', 1e-5, 'how far results of diff may differ, of the largest value', min = 0 },
  { 'times', 10, 'so many runs are timed', integer = true, min = 1, max = 1e6 },
}

-- -- What is in it ------------------------------------------------------------------------------

local function shape_text(shape, sizes)
  if not shape then return '[any shape]' end
  local list = {}
  for i, size in ipairs(shape) do list[i] = size and tostring(sizes[size] or size) or '?' end
  return '[' .. table.concat(list, ',') .. ']'
end

local function value_line(kind, value, sizes)
  plain.print(plain.line(('%-8s %s  %s%s'):format(kind, value.name, value.type or 'any type',
    shape_text(value.shape, sizes))), '\n')
end

-- The inputs of a file that are no weights.
local function inputs_of(graph)
  local initialized, list = {}, {}
  for _, t in ipairs(graph.initializers) do initialized[t.name] = true end
  for _, value in ipairs(graph.inputs) do
    if not initialized[value.name] then list[#list + 1] = value end
  end
  return list
end

-- Operators with counts, the most frequent first.
local function operators(nodes)
  local counts, names, most = {}, {}, 0
  for _, n in ipairs(nodes) do
    local name = n.domain ~= '' and n.domain .. ':' .. n.op or n.op
    if not counts[name] then names[#names + 1] = name end
    counts[name] = (counts[name] or 0) + 1
    most = math.max(most, #name)
  end
  table.sort(names, function(a, b)
    return counts[a] > counts[b] or counts[a] == counts[b] and a < b
  end)
  return names, counts, most
end

local function show(path, opt)
  local draw = require 'ridge.onnx.draw'
  local model = require('ridge.onnx.file').read(path, 'onnx show')
  local graph, sizes, bytes = model.graph, draw.sizes(opt.size), 0
  local inputs = inputs_of(graph)
  draw.check({ what = path:match '[^/]*$', inputs = inputs }, sizes)
  for _, t in ipairs(graph.initializers) do bytes = bytes + (t.bytes or 0) end
  local domains = {}
  for domain, version in pairs(model.opset) do
    domains[#domains + 1] = ('%s %d'):format(domain == '' and 'opset' or domain, version)
  end
  table.sort(domains)
  plain.print(('%s: IR %d, %s%s\n'):format(plain.line(path), model.ir_version or 0,
    table.concat(domains, ', '),
    model.producer and model.producer ~= '' and (', written by %s %s'):format(model.producer,
      model.producer_version or ''):gsub(' $', '') or ''))
  for _, value in ipairs(inputs) do value_line('input', value, sizes) end
  for _, value in ipairs(graph.outputs) do value_line('output', value, sizes) end
  plain.print(('%-8s %s, %.1f MB\n'):format('weights', plain.count(#graph.initializers, 'tensor'),
    bytes / 2 ^ 20))
  local names, counts, width = operators(graph.nodes)
  local ops = require 'ridge.onnx.ops'
  plain.print(plain.count(#graph.nodes, 'node'), '\n')
  for _, name in ipairs(names) do
    local known = ops[name] or name == 'If'
    for _, f in ipairs(model.functions) do
      known = known or name == f.name or name == f.domain .. ':' .. f.name
    end
    plain.print((('%%6d  %%-%ds%%s'):format(width):format(counts[name], name,
      known and '' or '  (ridge has not)'):gsub(' +$', '')), '\n')
  end
end

-- -- Does it run --------------------------------------------------------------------------------

local function sizes_of(opt) return require('ridge.onnx.draw').sizes(opt.size) end

local function drawn(m, opt)
  return require('ridge.onnx.draw').inputs(m, sizes_of(opt), opt.seed)
end

local function plan_of(m, inputs)
  return require('ridge').graph(m, unpack(inputs)):plan()
end

local CLOSE = 1e-5 -- what a plan may round elsewhere, of the largest value

local function check(path, opt)
  local m = require('ridge').onnx.load(path)
  local inputs = drawn(m, opt)
  local called = { m(unpack(inputs)) }
  local planned = { plan_of(m, inputs)() }
  local far = 0
  for i, y in ipairs(called) do
    local same = y:describe() == planned[i]:describe()
    if same then
      far = math.max(far, (require('ridge.cli.onnx_change').distance(y, planned[i])))
    else
      plain.print(('%s: output %d is %s when it is called, and %s as a plan\n'):format(path, i,
        y:describe(), planned[i]:describe()))
      return 1
    end
  end
  local ok = far <= CLOSE
  plain.print(('%s: %s: %s; %s\n'):format(path, ok and 'ok' or 'NOT THE SAME',
    plain.count(#m.nodes, 'node'), far == 0 and 'called and as a plan it gives the same'
      or ('called and as a plan it differs by %.3g of the largest value'):format(far)))
  return ok and 0 or 1
end

local function run(path, opt)
  local ridge = require 'ridge'
  local m = ridge.onnx.load(path)
  local inputs = drawn(m, opt)
  local plan = plan_of(m, inputs)
  local outputs = { plan() }
  for i, y in ipairs(outputs) do
    local text = ''
    if y.count > 0 and y.dtype ~= 'bool' then
      local z = y:to 'f64'
      text = (', from %.6g to %.6g, mean %.6g'):format(z:min():item(), z:max():item(),
        z:mean():item())
    end
    plain.print(plain.line(m.outputs[i].name), (': %s%s\n'):format(y:describe(), text))
  end
  local times = {}
  for i = 1, opt.times do
    local before = ridge.clock()
    plan()
    times[i] = ridge.clock() - before
  end
  table.sort(times)
  plain.print(('%d runs: median %.3f ms, fastest %.3f ms, %s\n'):format(opt.times,
    times[math.floor((opt.times + 1) / 2)] * 1e3, times[1] * 1e3,
    plain.count(ridge.num_threads(), 'thread')))
end

-- -- The words -----------------------------------------------------------------------------------

local WORDS = { 'show', 'check', 'run', 'optimize', 'diff', 'bench' }

-- The options that each takes; those of bench are the recipe's.
local TAKES = { show = 'size', check = 'size seed', run = 'size seed times',
  optimize = 'size seed o opset', diff = 'size seed tolerance', bench = '' }

-- An option that stands there and that this word does not take; nil: there is none.
local function surplus(what, said)
  for _, option in ipairs(SPEC) do
    local name = option[1]
    if said[name] and not (' ' .. TAKES[what] .. ' '):find(' ' .. name .. ' ', 1, true) then
      return (#name > 1 and '--' or '-') .. name
    end
  end
end

local function go(opt, what, path, rest)
  local change = require 'ridge.cli.onnx_change'
  if what == 'show' then return show(path, opt) end
  if what == 'check' then return check(path, opt) end
  if what == 'run' then return run(path, opt) end
  if what == 'bench' then return change.bench(path, {}) end
  if what == 'optimize' then return change.optimize(path, opt, sizes_of(opt)) end
  return change.diff(path, rest[3], opt, sizes_of(opt))
end

--- Do what the first word says.
---@param argv string[]
---@return integer status
function M.main(argv)
  if argv[1] == 'bench' and argv[2] and not argv[2]:find '^%-' then
    local words, from = {}, argv[3] == '--' and 4 or 3
    for i = from, #argv do words[#words + 1] = argv[i] end
    return require('ridge.cli.onnx_change').bench(argv[2], words)
  end
  return stored.run('onnx', SPEC, argv, nil, function(opt, rest, _, said)
    local what, path = rest[1], rest[2]
    if not what then return stored.fail('onnx', 'which of ' .. table.concat(WORDS, ', ') .. '?') end
    if not TAKES[what] then
      return stored.fail('onnx', ("there is no '%s'%s; known: %s"):format(what,
        require('ridge.near').hint(what, WORDS), table.concat(WORDS, ', ')))
    end
    local other = surplus(what, said)
    if other then
      return stored.fail('onnx', what == 'bench'
        and 'onnx bench: FILE comes first, then options: ridge onnx bench net.onnx --batches 1,8'
        or ('onnx %s: it takes no %s'):format(what, other))
    end
    local wanted = what == 'diff' and 3 or 2
    if #rest < wanted then
      return stored.fail('onnx', wanted == 3 and 'which files?' or 'which file?')
    end
    if #rest > wanted then
      return stored.fail('onnx', ("'%s' is one file too many"):format(rest[wanted + 1]))
    end
    return go(opt, what, path, rest)
  end)
end

return M
