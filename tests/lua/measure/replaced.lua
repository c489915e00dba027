-- SPDX-License-Identifier: MIT
--- Functions in the place of others, however often they are put there, until all are put back:
--- replace(module, { name = function }), restore().

local originals = {}

local function replace(module, by)
  for name, f in pairs(by) do
    originals[module] = originals[module] or {}
    if originals[module][name] == nil then originals[module][name] = module[name] end
    rawset(module, name, f)
  end
end

local function restore()
  for module, names in pairs(originals) do
    for name, f in pairs(names) do rawset(module, name, f) end
  end
  originals = {}
end

return { replace = replace, restore = restore }
