module boxwork/peers

go 1.18
