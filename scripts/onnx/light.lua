-- SPDX-License-Identifier: MIT
--- The light models of onnx's wheel, from AlexNet to VGG-19: each is loaded, called and run as a
--- plan, and its result held against the stored one.
--
--     ./ridge scripts/onnx/light.lua DIR [--only NAME] [--threads 2]
--
-- DIR is onnx/backend/test/data/light in the place where the wheel was installed, or a folder that
-- scripts/onnx/random_weights.py wrote: the same models with weights drawn at random and what ONNX
-- Runtime made of them (NAME_input_0.pb, NAME_output_0.pb). Without a stored input it is 0, 1 ...
-- n - 1, divided by n, as onnx's own runner has it.

local ridge = require 'ridge'
local file = require 'ridge.onnx.file'

local opt, rest = ridge.args {
  { 'only', '', 'models whose names this pattern finds' },
  { 'threads', 2, 'compute threads' },
  rest = 'DIR', most = 1,
}
local folder = rest[1]
  or error('where are the models? onnx/backend/test/data/light is asked for', 0)
ridge.set_num_threads(opt.threads)

local function exists(path)
  local f = io.open(path, 'rb')
  if f then f:close() end
  return f ~= nil
end

local function input_of(path, value)
  if exists(path) then return file.tensor(file.read_tensor(path)) end
  local shape, n = {}, 1
  for i, size in ipairs(value.shape) do
    shape[i] = type(size) == 'number' and size or 1
    n = n * shape[i]
  end
  return (ridge.arange(0, n - 1, { dtype = 'f64' }) / n):to('f32'):reshape(shape)
end

-- The largest difference, in parts of the largest number.
local function distance(got, wanted)
  return (got - wanted):abs():max():item() / wanted:abs():max():item()
end

local pipe = assert(io.popen(("ls -1 '%s'"):format(folder)))
local names = {}
for line in pipe:lines() do
  local name = line:match '^(.*)%.onnx$'
  if name and name:find(opt.only) then names[#names + 1] = name end
end
pipe:close()

print(('%-28s %6s %9s %12s %12s %9s %9s'):format('model', 'nodes', 'load ms', 'called', 'as a plan',
  'call ms', 'plan ms'))
local bad = 0
for _, name in ipairs(names) do
  local path = folder .. '/' .. name
  local t0 = ridge.clock()
  local m = ridge.onnx.load(path .. '.onnx')
  local t1 = ridge.clock()
  local x = input_of(path .. '_input_0.pb', m.inputs[1])
  local wanted = file.tensor(file.read_tensor(path .. '_output_0.pb'))
  local y = m(x)
  local t2 = ridge.clock()
  m(x)
  local t3 = ridge.clock()
  local called = distance(y:reshape(wanted.shape), wanted)
  local plan = ridge.graph(m, x):plan()
  local z = plan()
  local t4 = ridge.clock()
  plan()
  local t5 = ridge.clock()
  local planned = distance(z:reshape(wanted.shape), wanted)
  if not (called <= 1e-3 and planned <= 1e-3) then bad = bad + 1 end
  print(('%-28s %6d %9.1f %12.2e %12.2e %9.1f %9.1f'):format(name, #m.nodes, (t1 - t0) * 1e3,
    called, planned, (t3 - t2) * 1e3, (t5 - t4) * 1e3))
  plan:release()
  collectgarbage()
end
if bad > 0 then
  io.stderr:write(('%d models are further off than 1e-3\n'):format(bad))
  os.exit(1)
end
