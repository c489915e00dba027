-- SPDX-License-Identifier: MIT
-- Devices from Lua: what is said where there is no GPU, and the simulated one where it was built.
local ridge = require 'ridge'

local SIMULATED = 'build/libridge_gpusim.so'

local function output(command)
  local pipe = assert(io.popen(command .. ' 2>&1'))
  local text = pipe:read('*a')
  pipe:close()
  return text
end

local function message(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  return tostring(err)
end

describe('a device', function()
  it('that is not there says what is missing', function()
    assert.matches("there is no device 'gpu'; known: 'cpu', 'cuda:0'", message(ridge.zeros, 2,
      { device = 'gpu' }))
    assert.matches('devices end at cuda:15', message(ridge.zeros, 2, { device = 'cuda:99' }))
    assert.matches('/no/such.so: cannot open', output("RIDGE_GPU=/no/such.so ./ridge -e "
      .. "'return ridge.zeros(2, { device = \"cuda\" })'"))
    assert.matches('has no function rg_gpu_plugin', output("RIDGE_GPU=build/libridge.so ./ridge -e "
      .. "'return ridge.ones(2):to \"cuda\"'"))
  end)

  it('whose kernels need a library that is missing names it', function()
    local folder = os.tmpname()
    os.remove(folder)
    output(('mkdir %s; cd %s; cc -shared -o libgone.so -x c /dev/null; '
      .. 'cc -shared -o plugin.so -x c /dev/null -L. -Wl,--no-as-needed -lgone; rm libgone.so')
      :format(folder, folder))
    local said = output('RIDGE_GPU=' .. folder .. "/plugin.so ./ridge -e "
      .. "'return ridge.zeros(2, { device = \"cuda\" })'")
    output('rm -r ' .. folder)
    assert.matches("the GPU's kernels are not there: libgone.so: cannot open shared object", said)
  end)

  it('that is simulated computes what the CPU computes', function()
    local file = io.open(SIMULATED)
    if not file then return pending 'no nvcc: the simulated GPU was not built' end
    file:close()
    assert.equal('done\n', output('RIDGE_GPU=' .. SIMULATED
      .. ' ./ridge tests/lua/device_child.lua'))
  end)

  it('joins functions of elements in plans, without a changed bit', function()
    local file = io.open(SIMULATED)
    if not file then return pending 'no nvcc: the simulated GPU was not built' end
    file:close()
    for _, order in ipairs { 'fwd', 'rev', 'rand:3' } do
      assert.equal('done\n', output('RG_SIM_ORDER=' .. order .. ' RIDGE_GPU=' .. SIMULATED
        .. ' ./ridge tests/lua/chain_child.lua'))
    end
  end)
end)
