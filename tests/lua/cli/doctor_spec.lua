-- SPDX-License-Identifier: MIT
-- What `ridge doctor` prints, word by word, of a machine that is made up here.

local approved = dofile 'tests/lua/approved.lua'

require 'ridge' -- with the true core, before doctor asks the one below
require 'ridge.repl.history'

-- What doctor asks of the machine.
local function fake(name, module) package.loaded[name] = module end

local ENVIRONMENT = { TERM = 'xterm', OMP_NUM_THREADS = '2', RIDGE_DB = '/tmp/r.db',
  MKL_NUM_THREADS = '4', HOME = '/home/me' }

local FINDINGS = {
  { name = 'governor', state = 'warning', value = 'powersave', advice = 'set it to performance' },
  { name = 'turbo', state = 'good', value = 'off', advice = 'never said of what is good' },
  { name = 'steal', state = 'unavailable', value = 'this machine does not report it',
    advice = 'never said of what is hidden' },
  { name = 'others', state = 'warning', value = '0.5 processors' },
}

describe('ridge doctor prints', function()
  local plain, getenv, doctor
  local said, gpu, findings, given, columns, recent = {}, nil, FINDINGS, nil, 100, 1

  local function typed(...)
    said = {}
    local status = doctor.main { ... }
    return table.concat(said) .. (status ~= 0 and '[' .. status .. ']\n' or '')
  end

  setup(function()
    plain, getenv = require 'ridge.plain', os.getenv
    os.getenv = function(name) -- luacheck: ignore 122
      return ENVIRONMENT[name] or name == 'RIDGE_APPROVE' and getenv(name) or nil
    end
    for _, way in ipairs { 'print', 'note' } do
      plain[way] = function(...) for _, text in ipairs { ... } do said[#said + 1] = text end end
    end
    fake('ridge.host', { version = '0.1.0', settings = {}, is_terminal = function() return true end,
      columns = function() return columns end, machine = function() return nil, 4, 'avx2' end })
    fake('ridge.ffi.lib', { rg_build_facts = function() return 'gcc 12, -O3' end,
      rg_machine_facts = function()
        return { cpu = 'Test CPU', n_cores = 8, n_threads = 16, isa = 'avx2 fma',
          ram_bytes = 24.5 * 2 ^ 30 }
      end, rg_processors = function() return 6 end,
      rg_blas_is_recent = function() return recent end })
    fake('ridge.store.sqlite', { open = function()
      return { value = function() return '3.40.1' end, close = function() end }
    end })
    fake('ridge.measure.device', { number = function(name, what)
      if gpu then return 0 end
      error({ message = what .. ': there is no device ' .. name .. ': no driver\nnor anything' }, 0)
    end, name = function() return 'cuda:0' end, facts = function() return gpu.facts end,
      state = function() return gpu.state end })
    fake('ridge.device', { libraries = function() return gpu.libraries end })
    fake('ridge.sweep.calibrated', { stored = function() return nil end })
    fake('ridge.measure', { doctor = function(opt)
      given = opt
      return findings
    end })
    fake('ridge.cli.messages', { lines = function() return { 'Open MPI', 'mpirun is there' } end })
    fake('ridge.cli.devices', { rows = function()
      return { { 'driver', 'CUDA 13.0' }, { 'cuda:0', 'H100' } }, gpu ~= nil
    end })
    doctor = require 'ridge.cli.doctor'
  end)
  teardown(function() os.getenv = getenv end) -- luacheck: ignore 122

  it('all of it', function()
    local parts = {}
    local function put(title, text) parts[#parts + 1] = '# ' .. title .. '\n' .. text end
    put('no GPU', typed())
    assert.same({ seconds = 1 }, given)
    put('a GPU that is not there', typed('--device', 'cuda:1', '--seconds', '5'))
    assert.same({ seconds = 5 }, given)
    findings, columns = { FINDINGS[1] }, nil
    ENVIRONMENT.TERM, ENVIRONMENT.HOME, ENVIRONMENT.MKL_NUM_THREADS = nil, nil, nil
    gpu = { facts = { name = 'NVIDIA X', capability = '9.0', mem = 80 * 2 ^ 30, driver = '13.0',
      runtime = '13.1' }, state = { driver = '580.1' },
      libraries = { cublaslt = '13.1.0', cudnn = '9.1', nvrtc = '13.0', why = {} } }
    put('a GPU, one warning', typed())
    assert.same({ seconds = 1, device = 'cuda:0' }, given)
    findings = {}
    gpu = { facts = { name = 'simulated', simulated = true }, state = {},
      libraries = { why = { cudnn = 'not used', nvrtc = 'none' } } }
    put('a simulated one of which little is known', typed('--device', 'cuda:0'):match '\nGPU.*')
    recent = 0
    put('an OpenBLAS that is older than the processor', typed():match '\nOpenBLAS.-\nSQLite')
    put('GPUs alone', typed('--device', 'cuda'))
    gpu = nil
    put('no GPUs at all', typed('--device', 'cuda'))
    package.loaded['ridge.ffi.lib'] = nil
    package.preload['ridge.ffi.lib'] = function() error('it cannot be loaded', 0) end
    put('no core', typed())
    local text = table.concat(parts, '\n')
    approved.check('cli/doctor', (text:gsub('%(LuaJIT [^)]*%)', '(LUAJIT)')
      :gsub('0.1.0, LuaJIT [^\n]*', '0.1.0, LUAJIT')))
  end)
end)
