-- SPDX-License-Identifier: MIT
-- The folder that `make bundle` makes runs from elsewhere, with an empty environment, and takes
-- nothing of the system but what it is meant to.
local C = require 'ridge.ffi.lib'

local function run(command)
  local pipe = assert(io.popen(command .. ' 2>&1; echo "status $?"'))
  local text = pipe:read '*a'
  pipe:close()
  return text
end

local SYSTEM = { 'ld-linux', 'libc.so', 'libm.so', 'libmvec.so', 'libdl.so', 'librt.so',
  'libpthread.so', 'libgcc_s.so', 'libstdc++.so', 'libcuda', 'libnv' }

local function is_of_system(path)
  for _, name in ipairs(SYSTEM) do
    if path:find('/' .. name, 1, true) then return true end
  end
  return false
end

local CODE = [[
local ridge, ffi = require 'ridge', require 'ffi'
local x = ridge.ones(64, 64)
local y = x:matmul(x):sum():item()
local db = require('ridge.store.sqlite').open(':memory:', 'read')
local version = db:value 'SELECT sqlite_version()'
for _, name in ipairs { 'libcairo.so.2', 'libfontconfig.so.1', 'libz.so.1' } do
  ffi.load(name)
end
print(y, version)
for line in io.lines '/proc/self/maps' do
  local path = line:match ' (/.*%.so[%d.]*)$'
  if path then print(path) end
end]]

-- The check of a GPU from the folder: every file that it names is there, and its steps pass on the
-- simulated one, which also reads what those files load.
local function checks(folder)
  local named = 0
  for line in io.lines 'scripts/gpu-check' do
    for path in line:gsub('^%s*#.*', ''):gmatch '[%w_]+/[%w_/-]+%.[a-z]+' do
      if path:find '^scripts/' or path:find '^tests/' then
        named = named + 1
        local file = io.open(folder .. '/' .. path)
        assert(file, ('scripts/gpu-check names %s; scripts/bundle does not carry it'):format(path))
        file:close()
      end
    end
  end
  assert.is_true(named >= 7)
  local plugin = io.open 'build/libridge_gpusim.so'
  if not plugin then return end
  plugin:close()
  local steps = { 'facts', 'start', 'kernels', 'ceilings', 'bench', 'agree', 'ops', 'features',
    'beliefs' }
  local simulated = run('readlink -f build/libridge_gpusim.so'):match '[^\n]+'
  local text = run(('cd / && env -i PATH=/usr/bin:/bin RIDGE_TEST_EVERY=200 RIDGE_GPU=%s '
    .. '%s/scripts/gpu-check %s'):format(simulated, folder, table.concat(steps, ' ')))
  for _, step in ipairs(steps) do
    assert.equal('passed', text:match('\n| ' .. step .. ' *| (%a+) *|'), text)
  end
  assert.matches('status 0\n$', text)
  -- the step of gradients reads one more file, and is seen whole in gpu_check_spec
  text = run(('cd / && env -i PATH=/usr/bin:/bin RIDGE_TEST_DEVICE=1 RIDGE_GPU=%s %s/ridge '
    .. "%s/scripts/gpu/specs.lua %s/tests/op/grad_spec.lua --filter 'gradient of relu'"):format(
    simulated, folder, folder, folder))
  assert.matches('\n?6 passed, 0 failed\nstatus 0\n$', text) -- relu and relu6
end

describe('make bundle', function()
  it('makes a folder that runs elsewhere with nothing set', function()
    -- kernels that were built for a GPU are carried; here they are the simulator's anyway
    local text = run 'env -u MAKEFLAGS -u MAKELEVEL make -s bundle KERNELS_TOO='
    assert.matches('status 0\n$', text)
    io.write('# ', text:match 'bundle: build/bundle,[^\n]*', '\n')
    local megabytes = tonumber(text:match 'bundle: build/bundle.tar.zst, ([%d.]+) MB\n')
    assert.is_true(megabytes > 1 and megabytes <= 60)
    local folder = os.tmpname()
    os.remove(folder)
    -- another program, with few libraries, is packed sooner
    local whole = run(('BUNDLE_MOST=1 scripts/bundle "$(command -v luajit)" %s/luajit'):format(
      folder))
    assert.matches('that is more than 1 MB', whole)
    assert.matches('status 1\n$', whole)
    run('rm -r ' .. folder)
    assert.equal('status 0\n', run(('mkdir %s && tar -xf build/bundle.tar.zst -C %s '
      .. '--strip-components 1'):format(folder, folder)))
    local file = assert(io.open(folder .. '/code.lua', 'w'))
    file:write(CODE)
    file:close()
    local start = tonumber(C.rg_clock_ns())
    text = run(('cd / && env -i %s/ridge %s/code.lua'):format(folder, folder))
    io.write(('# it starts, multiplies and opens every library in %.0f ms\n'):format(
      (tonumber(C.rg_clock_ns()) - start) / 1e6))
    assert.matches('262144\t3%.%d+', text)
    assert.matches('status 0\n$', text)
    local carried = 0
    for path in text:gmatch '\n(/[^\n]*%.so[%d.]*)' do
      if path:sub(1, #folder + 1) == folder .. '/' then
        carried = carried + 1
      else
        assert(is_of_system(path), path .. ' is not of the bundle')
      end
    end
    assert.is_true(carried > 10)
    assert.matches('\nplugin +', run(('env -i %s/ridge doctor --device cuda'):format(folder)))
    checks(folder)
    run('rm -r ' .. folder)
  end)
end)
