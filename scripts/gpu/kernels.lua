-- SPDX-License-Identifier: MIT
-- kernels: no kernel spills registers, or takes more of them or more stack than caps.lua writes
-- down; and the instructions that caps.lua names are in its code.
--
--     luajit scripts/gpu/kernels.lua [folder with FILE.ptx and what ptxas -v said of it, FILE.log]
--
-- `make check-gpu` writes the folder. Without one, because there is no nvcc, it says so and ends.
-- The last line is `N passed, N failed`, N kernels.

local HERE = arg[0]:match '^(.*/)' or './'

local function lines(command)
  local pipe = assert(io.popen(command))
  local list = {}
  for line in pipe:lines() do list[#list + 1] = line end
  pipe:close()
  return list
end

-- All kernels of a folder: file, symbol, registers, stack, spill.
local function kernels_of(folder)
  local list = {}
  for _, path in ipairs(lines('find ' .. folder .. " -name '*.log' | sort")) do
    local kernel
    for line in io.lines(path) do
      local symbol = line:match "Compiling entry function '([^']+)'"
      if symbol then
        kernel = { file = path:sub(#folder + 2):match '^(.*)%.log$', symbol = symbol }
        list[#list + 1] = kernel
      end
      -- properties of a function that was not inlined name the function; it is nobody's own
      local stack, stores, loads =
        line:match '(%d+) bytes stack frame, (%d+) bytes spill stores, (%d+) bytes spill loads'
      if stack and kernel then
        kernel.stack = math.max(kernel.stack or 0, tonumber(stack))
        kernel.spill = (kernel.spill or 0) + stores + loads
      end
      local registers = line:match 'Used (%d+) registers'
      if registers and kernel then kernel.registers = tonumber(registers) end
    end
  end
  return list
end

-- void k_sum<float>(rg_strided) -> k_sum, k_sum<float>
local function name_kernels(list)
  local path = os.tmpname()
  local file = assert(io.open(path, 'w'))
  for _, kernel in ipairs(list) do file:write(kernel.symbol, '\n') end
  file:close()
  for i, line in ipairs(lines('c++filt <' .. path)) do
    local text = line:gsub('%(anonymous namespace%)::', ''):gsub('^void ', '')
    local name, rest = text:match '^([%w_]+)(.*)$'
    list[i].name, list[i].full = name, name .. (rest:match '^%b<>' or '')
  end
  os.remove(path)
end

-- The text of each kernel of a PTX file, by symbol.
local function bodies(path)
  local found, symbol, text = {}, nil, nil
  for line in io.lines(path) do
    local entry = line:match '%.entry%s+([%w_$]+)'
    if entry then symbol, text = entry, {} end
    if symbol then text[#text + 1] = line end
    if symbol and line == '}' then
      found[symbol], symbol = table.concat(text, '\n'), nil
    end
  end
  return found
end

local function judge(kernel, cap, body)
  local wrong = {}
  local function add(...) wrong[#wrong + 1] = (...):format(select(2, ...)) end
  if not kernel.registers then return { 'ptxas did not say what it uses' } end
  if kernel.spill > 0 then add('%d bytes of spills', kernel.spill) end
  if kernel.stack > cap.stack then add('%d bytes of stack, %d allowed', kernel.stack, cap.stack) end
  if kernel.registers > cap.registers then
    add('%d registers, %d allowed', kernel.registers, cap.registers)
  end
  for _, word in ipairs(cap.has or {}) do
    if not body:find(word) then add('no instruction like %s', word) end
  end
  return wrong
end

local function main(folder)
  if not folder then
    print 'kernels: no nvcc here: nothing was compiled, nothing was checked'
    return 0
  end
  local caps = dofile(HERE .. 'caps.lua')
  local list = kernels_of(folder)
  name_kernels(list)
  local failed, used, texts = 0, {}, {}
  for _, kernel in ipairs(list) do
    local key = caps[kernel.full] and kernel.full or kernel.name
    local given = caps[key] or {}
    used[key] = true
    local cap = { registers = given.registers or caps.default.registers,
      stack = given.stack or caps.default.stack, has = given.has }
    if cap.has and not texts[kernel.file] then
      texts[kernel.file] = bodies(folder .. '/' .. kernel.file .. '.ptx')
    end
    local wrong = judge(kernel, cap, cap.has and texts[kernel.file][kernel.symbol] or '')
    if #wrong > 0 then
      failed = failed + 1
      print(('not ok gpu/%s.cu: %s: %s'):format(kernel.file, kernel.full,
        table.concat(wrong, ', ')))
    end
  end
  for key, given in pairs(caps) do
    if key ~= 'default' and not used[key] then
      failed = failed + 1
      print(('not ok scripts/gpu/caps.lua: there is no kernel %s'):format(key))
    end
    if key ~= 'default' and not given.why then
      failed = failed + 1
      print(('not ok scripts/gpu/caps.lua: %s does not say why'):format(key))
    end
  end
  if #list == 0 then failed = failed + 1 end
  print(('%d passed, %d failed'):format(math.max(0, #list - failed), failed))
  return failed > 0 and 1 or 0
end

os.exit(main(arg[1]))
