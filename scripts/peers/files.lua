-- SPDX-License-Identifier: MIT
--- Networks as ONNX files: ridge beside ONNX Runtime and PyTorch (eager and compiled), each pair in
--- paired blocks on the same inputs; where a peer computes something else that is an error.
--
--     ./ridge scripts/peers/files.lua --light DIR [--python PYTHON] [--torch PYTHON]
--                                     [--only NAME,...] [--threads 1] [--processes 3] [--looks 2]
--
-- --python has onnx and onnxruntime, --torch has torch and onnx ('' leaves PyTorch out). DIR has
-- light_resnet50.onnx, light_squeezenet.onnx and light_shufflenet.onnx with drawn weights:
--
--     python3 scripts/onnx/random_weights.py WHEEL/onnx/backend/test/data/light DIR \
--       light_resnet50 light_squeezenet light_shufflenet
--
-- A ratio above 1 says how many times as fast as the peer ridge is. With torch.compile, parameters
-- are frozen (folded, packed), as in ridge's plans; its first call compiles (minutes on a busy
-- machine, kept in its cache), before anything is timed.

local C = require 'ridge.ffi.lib'
local pair = require 'ridge.cli.onnx_pair'
local draw = require 'ridge.onnx.draw'
local unit = require 'ridge.show.unit'
local ridge = require 'ridge'

local here = debug.getinfo(1, 'S').source:match '^@(.*/)' or ''
local nets = dofile(here .. 'nets.lua')

local opt = ridge.args {
  { 'light', '', 'folder of the light models with drawn weights' },
  { 'python', 'python3', 'a Python with onnx and onnxruntime' },
  { 'torch', '', 'a Python with torch and onnx' },
  { 'only', '', 'cases whose names begin with one of these, by comma' },
  { 'peers', 'ort,compile,eager', 'which of ort, compile and eager' },
  { 'threads', 1, 'compute threads', min = 1, integer = true },
  { 'processes', 3, 'fresh processes of a comparison', min = 1, integer = true },
  { 'blocks', 6, 'blocks of a process in a look', min = 6, integer = true },
  { 'looks', 2, 'looks at most', min = 1, integer = true },
  { 'minutes', 12, 'behind which no comparison begins', min = 0 },
}
ridge.set_num_threads(opt.threads)

local folder = os.tmpname()
os.remove(folder)
assert(os.execute(("mkdir -p '%s'"):format(folder)) == 0)

local function written(name, net, ...)
  ridge.seed(1)
  local path = ('%s/%s.onnx'):format(folder, name)
  ridge.onnx.export(net:eval(), path, { x = ridge.randn(...), opset = 17,
    dynamic = { input = { 'N' } } })
  return path
end

local function light(name) return ('%s/light_%s.onnx'):format(opt.light, name) end

local CASES = {
  { 'lenet_b1', function() return written('lenet', nets.lenet(), 2, 1, 28, 28) end, { N = 1 } },
  { 'lenet_b64', function() return written('lenet', nets.lenet(), 2, 1, 28, 28) end, { N = 64 } },
  { 'mlp_b1', function() return written('mlp', nets.mlp(), 2, 64) end, { N = 1 } },
  { 'mlp_b32', function() return written('mlp', nets.mlp(), 2, 64) end, { N = 32 } },
  { 'block_b1', function() return written('block', nets.block(), 2, 64, 256) end, { N = 1 } },
  { 'squeezenet_b1', function() return light 'squeezenet' end, {} },
  { 'shufflenet_b1', function() return light 'shufflenet' end, {} },
  { 'resnet50_b1', function() return light 'resnet50' end, {} },
}

local function begins(list, name)
  if list == '' then return true end
  for prefix in list:gmatch '[^,]+' do
    if name:sub(1, #prefix) == prefix then return true end
  end
  return false
end

-- Words of a peer that runs a file on inputs that are files too.
local function command_of(peer, path, inputs)
  local words
  if peer == 'ort' then
    words = { opt.python, here .. 'ort_worker.py', path, '--threads', tostring(opt.threads) }
    for _, input in ipairs(inputs) do
      words[#words + 1], words[#words + 2] = '--input', input.name .. '=' .. input.path
    end
    return words
  end
  words = { opt.torch, here .. 'torch_worker.py', path, '--threads', tostring(opt.threads),
    '--compile', peer == 'eager' and 'eager' or 'default' }
  if peer == 'compile' then words[#words + 1] = '--freeze' end
  for _, input in ipairs(inputs) do
    words[#words + 1], words[#words + 2] = '--input', input.path
  end
  return words
end

local function inputs_of(path, sizes, name)
  local m, list = ridge.onnx.load(path), {}
  for i, x in ipairs(draw.inputs(m, sizes, 0)) do
    list[i] = { name = m.inputs[i].name, path = ('%s/%s_%d.npy'):format(folder, name, i) }
    ridge.save(list[i].path, x)
  end
  return list
end

local function compared(peer, path, sizes, inputs)
  return pair.compare({ a = path, sizes = sizes, seed = 0, passes = 'aggressive',
    command = command_of(peer, path, inputs), timeout = 600 }, { processes = opt.processes,
    blocks = opt.blocks, looks = opt.looks, check = true, tolerance = 1e-4,
    protocol = { level = 'quick' } })
end

local PEERS = { ort = 'ONNX Runtime', compile = 'torch.compile', eager = 'PyTorch eager' }

local function show(name, peer, ok, found)
  if ok then
    print(('%-14s %-14s %10s %10s %8.3f  %-16s %s'):format(name, PEERS[peer],
      unit.format('ns', found.a_ns), unit.format('ns', found.b_ns), found.ratio,
      ('%.3f .. %.3f'):format(found.ci_lo, found.ci_hi),
      ({ faster = 'slower', slower = 'faster' })[found.verdict] or found.verdict))
  else
    print(('%-14s %-14s failed: %s'):format(name, PEERS[peer], tostring(found)))
  end
  io.stdout:flush()
end

local began = tonumber(C.rg_clock_ns())
print(('%-14s %-14s %10s %10s %8s  %-16s %s'):format('net', 'beside', 'ridge', 'peer', 'ratio',
  '95 %', 'ridge is'))
local function seconds() return (tonumber(C.rg_clock_ns()) - began) / 1e9 end

local left_out = 0
local made = {} -- by case: file and inputs
for peer in opt.peers:gmatch '[^,]+' do
  for _, case in ipairs(CASES) do
    local name = case[1]
    if begins(opt.only, name) and (peer == 'ort' or opt.torch ~= '') then
      if not made[name] then
        local path = case[2]()
        made[name] = { path = path, inputs = inputs_of(path, case[3], name) }
      end
      if seconds() > 60 * opt.minutes then
        left_out = left_out + 1
      else
        show(name, peer, pcall(compared, peer, made[name].path, case[3], made[name].inputs))
      end
    end
  end
end
assert(os.execute(("rm -rf '%s'"):format(folder)) == 0)
print(('%d thread%s, %.0f s; %s%s'):format(opt.threads, opt.threads == 1 and '' or 's', seconds(),
  ridge.version(), left_out > 0 and ('; %d left out for time'):format(left_out) or ''))
