# Recipes of the one script that does the work: ./dev needs nothing but Python.
setup *args:
    ./dev setup {{args}}
demo *args:
    ./dev demo {{args}}
test *args:
    ./dev test {{args}}
check:
    ./dev check
bench *args:
    ./dev bench {{args}}
bench-labels *args:
    ./dev bench-labels {{args}}
bench-audit *args:
    ./dev bench-audit {{args}}
bench-video *args:
    ./dev bench-video {{args}}
